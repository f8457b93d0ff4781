package same

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// item is one thing that the program wrote. A record has a line for each item:
//
//	kind     place        name                 value
//	rows     output       id of the row        key, and digests of its tensors in the tables
//	files    folder       path below it        digest; "text" for text that people read
//	table    file         column               type and digest of the values
//	ledger   folder       key                  status, fields of the row, digests of the blobs
//	tensors  file         name                 type, shape and digest
//	archive  file         name of a member     digest
type item struct{ kind, place, name string }

// state is everything below the directory of a case after a call of the program.
type state map[item]string

// gone is the value of a removed item.
const gone = "gone"

var hashes = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// short shortens keys and digests in a text to 16 digits.
func short(text string) string {
	return hashes.ReplaceAllStringFunc(text, func(hash string) string { return hash[:16] })
}

// digest returns the first digits of the SHA-256 of data.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:8])
}

// snapshot records what call number n of the program changed. It returns what is new in the summaries.
func (s *shell) snapshot(n int, call string, flags map[string]bool) (text string) {
	s.t.Helper()
	now := state{}
	err := filepath.WalkDir(s.dir, func(full string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(s.dir, full)
		if err = errors.Join(err, relErr); err != nil || !d.Type().IsRegular() || s.skipped(filepath.ToSlash(name)) {
			return err
		}
		text += s.addFile(now, filepath.ToSlash(name), flags)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.calls = append(s.calls, callResult{n, call, changes(s.before, now)})
	s.before = now
	return text
}

// isText reports whether a file is text, which is compared only if the case shows the file.
func isText(name string) bool {
	return slices.Contains([]string{".html", ".md", ".json", ".csv", ".yaml", ".txt"}, path.Ext(name))
}

// addFile adds a file to a state. If the file is a summary, it returns what is new in it.
func (s *shell) addFile(now state, name string, flags map[string]bool) (text string) {
	data := s.read(name)
	place, below := split(name)
	switch path.Ext(name) {
	case ".seg":
		addLedger(s.t, now, path.Dir(name), name, data)
		return ""
	case ".parquet":
		id := digest(data)
		if _, ok := s.tables[id]; !ok {
			s.tables[id] = readTable(s.t, name, data)
		}
		addTable(now, name, s.tables[id])
		return ""
	case ".safetensors":
		addTensors(s.t, now, name, data)
		return ""
	case ".tar":
		addMembers(s.t, now, name, data)
		return ""
	}
	value := digest(data)
	if isText(name) {
		value = "text"
	}
	now[item{"files", place, short(below)}] = value
	if path.Base(name) == "summary.json" {
		return s.summary(now, name, data, flags)
	}
	return ""
}

// split splits a path into the folder of the output and the path below it.
func split(name string) (place, below string) {
	for _, folder := range []string{"/videos/", "/posters/", "/tables/"} {
		if out, rest, ok := strings.Cut(name, folder); ok {
			return out, folder[1:] + rest
		}
	}
	return path.Dir(name), path.Base(name)
}

// changes returns the items of a state that differ from the state before. If a place has become empty, it returns one item with the
// name "*" and the value gone.
func changes(before, now state) state {
	out, places := state{}, map[item]bool{}
	for i, value := range now {
		places[item{i.kind, i.place, "*"}] = true
		if before[i] != value {
			out[i] = value
		}
	}
	for i := range before {
		if _, ok := now[i]; ok {
			continue
		}
		if all := (item{i.kind, i.place, "*"}); !places[all] {
			i = all
		}
		out[i] = gone
	}
	return out
}

// skipped reports whether a file is not compared: locks, facts of runs, files that the case wrote itself, and files that it says to
// ignore.
func (s *shell) skipped(name string) bool {
	for _, dir := range s.ignored {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return s.given[name] || strings.HasSuffix(name, "lock") || strings.HasPrefix(name, "runs/") || strings.Contains(name, "/runs/")
}

// sortedItems returns the items of a state by kind, place and name.
func sortedItems(s state) []item {
	kinds := []string{"rows", "files", "ledger", "table", "tensors", "archive"}
	return slices.SortedFunc(maps.Keys(s), func(a, b item) int {
		if a.kind != b.kind {
			return slices.Index(kinds, a.kind) - slices.Index(kinds, b.kind)
		}
		if a.place != b.place {
			return strings.Compare(a.place, b.place)
		}
		return strings.Compare(a.name, b.name)
	})
}
