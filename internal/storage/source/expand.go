package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/media"
	"latentbeam/internal/storage/store/bucket"
)

// Expand returns the files for a list of locations and glob patterns: pattern by pattern, sorted within a pattern, without
// duplicates. More than most files are an error. An error about a location is a *document.Error.
func Expand(ctx context.Context, patterns []string, most int) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	for _, pattern := range ranges(patterns, most) {
		matches, err := expand(ctx, pattern, most)
		if err != nil {
			return nil, err
		}
		matches = slices.DeleteFunc(matches, func(file string) bool { // as in a shell, a pattern matches no hidden files
			return file != pattern && media.Hidden(file) && !media.Hidden(pattern)
		})
		if len(matches) == 0 {
			return nil, document.NewError(document.Position{File: pattern}, "only hidden files match this pattern")
		}
		slices.Sort(matches)
		for _, file := range matches {
			if !seen[file] {
				seen[file] = true
				files = append(files, file)
			}
		}
		if len(files) > most {
			return nil, document.NewError(document.Position{File: pattern}, "more than %d files", most)
		}
	}
	return files, nil
}

// numberRange matches {000..009}, a range of shards.
var numberRange = regexp.MustCompile(`\{(\d{1,9})\.\.(\d{1,9})\}`)

// alternatives matches {a,b}.
var alternatives = regexp.MustCompile(`\{([^{}]*,[^{}]*)\}`)

// ranges expands ranges of numbers: a{8..10} is a8, a9 and a10; a{08..10} starts with a08. A range with more than most numbers
// is not expanded, nor is the name of an existing file. Alternatives in addresses of web servers, which cannot list files, are
// expanded too.
func ranges(patterns []string, most int) (all []string) {
	for _, pattern := range patterns {
		if a := alternatives.FindStringSubmatchIndex(pattern); a != nil && isWeb(pattern) {
			for part := range strings.SplitSeq(pattern[a[2]:a[3]], ",") {
				all = append(all, ranges([]string{pattern[:a[0]] + part + pattern[a[1]:]}, most-len(all))...)
			}
			continue
		}
		m := numberRange.FindStringSubmatchIndex(pattern)
		if m == nil {
			all = append(all, pattern)
			continue
		}
		first, _ := strconv.Atoi(pattern[m[2]:m[3]])
		last, _ := strconv.Atoi(pattern[m[4]:m[5]])
		if _, err := os.Stat(pattern); err == nil || last < first || last-first >= most-len(all) {
			all = append(all, pattern)
			continue
		}
		for n := first; n <= last; n++ {
			one := fmt.Sprintf("%s%0*d%s", pattern[:m[0]], m[3]-m[2], n, pattern[m[1]:])
			all = append(all, ranges([]string{one}, most-len(all))...)
		}
	}
	return all
}

func expand(ctx context.Context, pattern string, most int) ([]string, error) {
	if pattern == Stdin {
		return []string{Stdin}, nil
	}
	if IsAddress(pattern) {
		return expandAddress(ctx, pattern, most)
	}
	_, err := os.Stat(pattern)
	if err == nil { // a name with brackets may be an existing file
		return []string{pattern}, nil
	}
	found, globErr := glob(pattern, most)
	if errors.Is(globErr, doublestar.ErrBadPattern) {
		return nil, document.NewError(document.Position{File: pattern}, "not a glob pattern").WithFix("close its brace, or put \\ before {")
	} else if globErr != nil {
		return nil, document.NewError(document.Position{File: pattern}, "%v", globErr)
	}
	if len(found) == 0 {
		noTable := noTable(pattern, func(other string) bool {
			found, err := glob(other, 1)
			return err == nil && len(found) > 0
		})
		if noTable != nil {
			return nil, noTable
		}
		return nil, noFile(pattern, err)
	}
	return found, nil
}

// wild holds the characters that make a location a pattern.
const wild = `*?[{\`

// expandAddress finds the objects that match a pattern. As on disk, * and ? do not match a slash. An address with a slash at
// its end is a folder, whatever it contains.
func expandAddress(ctx context.Context, pattern string, most int) ([]string, error) {
	p, err := parse(ctx, pattern, config.InputSchemes)
	if err != nil {
		return nil, document.NewError(document.Position{File: "input"}, "%v", err)
	}
	if _, err = p.server.Find(ctx, p.key); err == nil {
		return []string{pattern}, nil
	}
	if isWeb(pattern) && (IsUnreachable(err) || errors.Is(err, bucket.ErrNoHost)) {
		return []string{pattern}, nil // a single file: its reader reports errors, and for media only the row fails
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if isWeb(pattern) {
		return nil, noObject(pattern)
	}
	if !strings.ContainsAny(p.key, wild) {
		folder := strings.TrimSuffix(p.key, "/") + "/"
		for _, err := range p.server.Objects(ctx, folder, false) {
			return []string{p.root + "/" + folder}, err
		}
		return nil, p.noMatch(ctx, pattern)
	}
	return p.matches(ctx, pattern, most)
}

// matches lists the objects that match a pattern. It requests only objects whose names start with the part of the pattern before its
// first wildcard.
func (p parsed) matches(ctx context.Context, pattern string, most int) (found []string, err error) {
	fixed := p.key[:strings.IndexAny(p.key, wild)]
	rest := p.key[len(fixed):]
	flat := !strings.Contains(rest, "/") && !strings.Contains(rest, "**")
	for o, err := range p.server.Objects(ctx, fixed, flat) {
		if err != nil {
			return nil, err
		}
		if match, err := matchKey(p.key, o.Key); err != nil {
			return nil, document.NewError(document.Position{File: pattern}, "not a glob pattern: %v", err)
		} else if match {
			found = append(found, p.root+"/"+o.Key)
		}
		if len(found) > most {
			return nil, document.NewError(document.Position{File: pattern}, "more than %d files", most)
		}
	}
	if len(found) == 0 {
		return nil, p.noMatch(ctx, pattern)
	}
	return found, nil
}

// noMatch returns the error for a pattern that matches no object.
func (p parsed) noMatch(ctx context.Context, pattern string) error {
	noTable := noTable(pattern, func(string) bool {
		fixed := otherPlace(p.key)
		if i := strings.IndexAny(fixed, wild); i >= 0 {
			fixed = fixed[:i]
		}
		for _, err := range p.server.Objects(ctx, fixed, true) {
			return err == nil
		}
		return false
	})
	if noTable != nil {
		return noTable
	}
	return noObject(pattern)
}

// moved matches the files of an output's table, in its folder and in the layout of earlier releases.
var moved = regexp.MustCompile(`^(.*\btables/)(videos|failures|latents|embeddings)([-/])([^/]*)$`)

// otherPlace returns the pattern for an output's table in the layout of another release; "" if the pattern is not for a table.
func otherPlace(pattern string) string {
	m := moved.FindStringSubmatch(filepath.ToSlash(pattern))
	if m == nil {
		return ""
	}
	return m[1] + m[2] + map[string]string{"-": "/", "/": "-"}[m[3]] + m[4]
}

// noTable returns the error for a pattern that finds nothing and has the layout of another release; nil otherwise. finds
// reports whether a pattern matches anything.
func noTable(pattern string, finds func(string) bool) error {
	other := otherPlace(pattern)
	switch {
	case other == "":
		return nil
	case moved.FindStringSubmatch(other)[3] == "/":
		return document.NewError(document.Position{File: pattern}, "each table of an output has a folder of its own now").
			WithFix("give %s", other)
	case finds(other):
		return document.NewError(document.Position{File: pattern}, "an earlier release wrote this output, with its tables in one folder").
			WithFix("run its job once more, which moves them and computes nothing, or give %s", other)
	}
	return nil
}

func noObject(pattern string) error {
	if strings.ContainsAny(pattern, wild) {
		return document.NewError(document.Position{File: pattern}, "no object matches this pattern").
			WithFix("* matches no slash, ** any number of folders: gs://bucket/tables/*.parquet, gs://bucket/clips/**/*.mp4")
	}
	return document.NewError(document.Position{File: pattern}, "there is no such file").WithFix("check the address")
}

func noFile(pattern string, err error) error {
	if strings.ContainsAny(pattern, wild) {
		for _, f := range []norm.Form{norm.NFC, norm.NFD} {
			if other := f.String(pattern); other != pattern {
				if found, err := glob(other, 1); err == nil && len(found) > 0 {
					return otherForm(pattern, found[0])
				}
			}
		}
		return document.NewError(document.Position{File: pattern}, "no file matches this pattern").
			WithFix("paths are relative to the current directory%s", currentDirectory())
	}
	if other := OtherForm(pattern); other != "" {
		return otherForm(pattern, other)
	}
	if os.IsNotExist(err) {
		return document.NewError(document.Position{File: pattern}, "no such file").
			WithFix("paths are relative to the current directory%s", currentDirectory())
	}
	return document.NewError(document.Position{File: pattern}, "%v", err)
}

// otherForm returns the error for a name that exists in another Unicode form.
func otherForm(at, there string) error {
	return document.NewError(document.Position{File: at}, "no such file, but %+q is there: the same name in another Unicode form (%s, not %s)",
		there, form(there), form(at)).WithFix("copy the name from a listing of the folder, or rename the file")
}

func currentDirectory() string {
	if dir, err := os.Getwd(); err == nil {
		return ", " + dir
	}
	return ""
}
