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

// item is a thing that a program wrote, of which a record has one line:
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

// gone is the value of an item that a call removed.
const gone = "gone"

var hashes = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// short cuts keys and digests in a text to 16 digits.
func short(text string) string {
	return hashes.ReplaceAllStringFunc(text, func(hash string) string { return hash[:16] })
}

// digest is the beginning of the SHA-256 of data.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:8])
}

// snapshot notes what call number n of the program changed, and returns what is new in the summaries that it wrote.
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

// isText tells files whose text is compared where a case shows it, or not at all.
func isText(name string) bool {
	return slices.Contains([]string{".html", ".md", ".json", ".csv", ".yaml", ".txt"}, path.Ext(name))
}

// addFile adds a file to a state. It returns what is new in it if it is a summary.
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

// split cuts a path into the folder of the output and the path below it.
func split(name string) (place, below string) {
	for _, folder := range []string{"/videos/", "/posters/", "/tables/"} {
		if out, rest, ok := strings.Cut(name, folder); ok {
			return out, folder[1:] + rest
		}
	}
	return path.Dir(name), path.Base(name)
}

// changes returns the items of a state that are not as they were before. Of a place where nothing is left, one item
// with the name "*" is gone.
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

// skipped tells the files that are not compared: locks, facts of runs, what the case wrote itself, and
// what it says.
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
