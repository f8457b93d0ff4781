package same

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An archive is a text file that holds several files. A line "-- NAME --" begins each of them.

// section is a file of an archive.
type section struct{ name, text string }

var sectionLine = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// splitArchive returns the text before the first section and the sections.
func splitArchive(text string) (head string, sections []section) {
	marks := sectionLine.FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 {
		return text, nil
	}
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		sections = append(sections, section{text[m[2]:m[3]], text[m[1]:end]})
	}
	return text[:marks[0][0]], sections
}

// scenario is a case: a script and its files.
type scenario struct {
	name  string
	lines []string // lines of the script, without comments and flags
	files []section
	only  string          // the only numeric class in which it runs; "": it runs in go and avx2
	flags map[string]bool // flags that are set, of flagNames
}

// flagNames are the lines of a script that set a flag of the case. doc.go explains them.
var flagNames = []string{"short", "counts", "whole", "apart"}

// readScenarios reads all cases by name.
func readScenarios(t *testing.T) (all []scenario) {
	t.Helper()
	paths, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		s := scenario{name: strings.TrimSuffix(filepath.Base(path), ".txt"), flags: map[string]bool{}}
		var head string
		head, s.files = splitArchive(string(testdata(t, strings.TrimPrefix(path, "testdata/"))))
		for line := range strings.Lines(head) {
			line = strings.TrimSpace(line)
			switch class, isClass := strings.CutPrefix(line, "only "); {
			case line == "" || strings.HasPrefix(line, "#"):
			case isClass:
				s.only = class
			case slices.Contains(flagNames, line):
				s.flags[line] = true
			default:
				s.lines = append(s.lines, line)
			}
		}
		all = append(all, s)
	}
	return all
}

// in reports whether the case runs in a class.
func (s scenario) in(class string) bool {
	if s.only != "" {
		return s.only == class
	}
	return class == "go" || class == "avx2"
}

// play runs the script and returns what the program printed.
func (s scenario) play(t *testing.T, sh *shell) string {
	for _, f := range s.files {
		sh.write(f.name, []byte(f.text))
	}
	var b strings.Builder
	n := 0 // number of calls of the program
	for _, line := range s.lines {
		verb, rest, _ := strings.Cut(line, " ")
		args := strings.Fields(rest)
		switch {
		case verb == "$":
			n++
			fmt.Fprintf(&b, "$ %d %s\n%s\n", n, rest, sh.call(args))
			b.WriteString(sh.snapshot(n, rest, s.flags))
		case verb == "show" && len(args) == 1:
			b.WriteString(sh.show(args[0]))
		case verb == "ignore" && len(args) == 1:
			sh.ignored = append(sh.ignored, args[0])
		case verb == "env" && len(args) == 1:
			sh.setenv(args[0])
		case verb == "model" && len(args) == 2:
			config, weights := checkpoint(t, args[0])
			sh.write(args[1]+"/config.json", config)
			sh.write(args[1]+"/model.safetensors", weights)
		case verb == "weights" && len(args) == 2:
			_, weights := checkpoint(t, args[0])
			sh.write(args[1], weights)
		case verb == "picture" && len(args) == 4:
			sh.write(args[0], picture(t, args[1:]))
		case verb == "input" && len(args) == 1:
			sh.write(args[0], testdata(t, "inputs/"+args[0]))
		case verb == "restore" && len(args) == 2:
			if err := os.CopyFS(sh.path(args[1]), os.DirFS("testdata/outputs/"+args[0])); err != nil {
				t.Fatal(err)
			}
			sh.snapshot(0, "", s.flags) // the first call is compared with this state
			sh.calls = nil
		case verb == "copy" && len(args) == 2:
			sh.write(args[1], sh.read(args[0]))
		case verb == "remove" && len(args) == 1:
			sh.remove(args[0])
		case verb == "worker" && len(args) >= 1:
			sh.startWorker(args[0], args[1:])
		default:
			t.Fatalf("%s: unknown line %q", s.name, line)
		}
	}
	return b.String()
}

// testdata returns a file of this package's testdata.
func testdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
