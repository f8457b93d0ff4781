package same

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

const digestsFile = "testdata/digests.txt"

// about begins the file of digests.
const about = `# What the runs of testdata/cases wrote: numeric class, case, number of the call and path, SHA-256 (doc.go).
# Recorded with the program of commit d027f15. After a change that is meant: make same SAME=write
`

// record is what the runs of an earlier commit wrote.
type record struct {
	mu    sync.Mutex
	files map[string][][2]string // path and digest, by class and case
	texts map[string]string      // by name of the file
	write bool
}

func textFile(name string) string { return "testdata/texts/" + name + ".txt" }

// readRecord reads the committed record.
func readRecord(t *testing.T) *record {
	t.Helper()
	r := &record{files: map[string][][2]string{}, texts: map[string]string{}}
	data, err := os.ReadFile(digestsFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 4 {
			t.Fatalf("%s: a line with %d fields: %s", digestsFile, len(f), line)
		}
		id := f[0] + " " + f[1]
		r.files[id] = append(r.files[id], [2]string{f[2], f[3]})
	}
	return r
}

// take compares the results of a case in a class with the record, or puts them into it.
func (r *record) take(t *testing.T, class string, s scenario, text string, files [][2]string) {
	t.Helper()
	name, print := s.name, s.name
	if s.flags["apart"] {
		print += "." + class
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	want, read := r.texts[print]
	if !r.write {
		data, err := os.ReadFile(textFile(print))
		if err != nil {
			t.Fatal(err)
		}
		want, read = string(data), true
	}
	if read && want != text {
		t.Errorf("class %s, case %s prints other text (- recorded, + now):\n%s", class, name, diff(want, text))
	}
	id := class + " " + name
	if r.write {
		r.texts[print], r.files[id] = text, files
		return
	}
	wrong := differences(r.files[id], files)
	if more := len(wrong) - maxWrong; more > 0 {
		wrong = append(wrong[:maxWrong], fmt.Sprintf("and %d files more", more))
	}
	if len(wrong) > 0 {
		t.Errorf("class %s, case %s wrote other files (the path begins with the number of the call):\n%s", class, name,
			strings.Join(wrong, "\n"))
	}
}

// maxWrong bounds the files that are named of a case.
const maxWrong = 12

// differences says in which files two lists differ, in order of their paths.
func differences(want, got [][2]string) (wrong []string) {
	now := map[string]string{}
	for _, f := range got {
		now[f[0]] = f[1]
	}
	for _, f := range want {
		switch sum, ok := now[f[0]]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("  %s is missing", f[0]))
		case sum != f[1]:
			wrong = append(wrong, fmt.Sprintf("  %s has SHA-256 %s, recorded %s", f[0], sum, f[1]))
		}
		delete(now, f[0])
	}
	for path := range now {
		wrong = append(wrong, fmt.Sprintf("  %s was not written when the record was made", path))
	}
	slices.Sort(wrong)
	return wrong
}

// save writes the record. Cases that did not run keep what was recorded.
func (r *record) save(t *testing.T) {
	t.Helper()
	var lines []string
	for id, files := range r.files {
		for _, f := range files {
			lines = append(lines, fmt.Sprintf("%s %s %s\n", id, f[0], f[1]))
		}
	}
	slices.Sort(lines)
	if err := os.WriteFile(digestsFile, []byte(about+strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, text := range r.texts {
		if err := os.WriteFile(textFile(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// maxDiff bounds the lines of a difference that are shown.
const maxDiff = 60

// diff returns the lines in which two texts differ, by their longest common subsequence.
func diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	common := make([][]int, len(a)+1) // of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, fmt.Sprintf("%4d - %s", i+1, a[i]))
			i++
		default:
			out = append(out, fmt.Sprintf("%4d + %s", i+1, b[j]))
			j++
		}
	}
	if len(out) > maxDiff {
		out = append(out[:maxDiff], fmt.Sprintf("and %d lines more", len(out)-maxDiff))
	}
	return strings.Join(out, "\n")
}
