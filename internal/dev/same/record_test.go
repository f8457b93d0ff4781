package same

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// callResult is a call of the program and its effect.
type callResult struct {
	n     int    // number of the call in its case, from 1
	call  string // arguments of the program
	wrote state  // items that the call changed
}

// record reads and writes the files of testdata/results and testdata/texts. It knows which of them this test has written.
type record struct {
	mu     sync.Mutex
	source string            // commit of the program; "": the record is not written
	texts  map[string]string // texts by file name
}

func resultFile(class, name string) string { return "testdata/results/" + class + "/" + name + ".txt" }
func textFile(name string) string          { return "testdata/texts/" + name + ".txt" }

// check compares the results of a case in a class with the record, or writes them to the record.
func (r *record) check(t *testing.T, class string, s scenario, text string, calls []callResult) {
	t.Helper()
	recorded, from := readResults(t, resultFile(class, s.name))
	found := compareResults(recorded, calls)
	if r.source != "" {
		r.write(t, class, s, text, calls, found)
		return
	}
	again := fmt.Sprintf("If this is meant: make same SAME=write RUN=TestSame/%s/%s", class, s.name)
	if from == "" {
		t.Errorf("class %s, case %s has no record of results. %s", class, s.name, again)
	} else if report := found.String(); len(found.wrong) > 0 {
		t.Errorf("class %s, case %s: not as recorded from %s.\n%s%s", class, s.name, from, report, otherKeys)
	} else if report != "" {
		t.Errorf("class %s, case %s: not as recorded from %s.\n%s%s", class, s.name, from, report, again)
	}
	name := s.textName(class)
	if want, from := readHeaded(t, textFile(name)); want != text {
		t.Errorf("class %s, case %s prints other text than recorded from %s (- recorded, + now):\n%s\n%s",
			class, s.name, from, diff(want, text), again)
	}
}

// otherKeys is the advice for results that changed under the same key.
const otherKeys = "This is not recorded. Give these rows other keys, by the Version of a stage or by a parameter that " +
	"enters keys only where a row has it."

// textName returns the name of the file with the output of a case.
func (s scenario) textName(class string) string {
	if s.flags["apart"] {
		return s.name + "." + class
	}
	return s.name
}

// write records a case, but not if results changed under the same key: outputs of earlier programs have the old result
// under this key, and a run would keep it.
func (r *record) write(t *testing.T, class string, s scenario, text string, calls []callResult, found findings) {
	t.Helper()
	if len(found.wrong) > 0 {
		t.Errorf("class %s, case %s is not recorded.\n%s%s If the record itself is wrong, remove %s first.", class, s.name,
			found.String(), otherKeys, resultFile(class, s.name))
		return
	}
	if report := found.String(); report != "" {
		t.Logf("class %s, case %s is recorded again.\n%s", class, s.name, report)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := s.textName(class)
	if other, ok := r.texts[name]; ok && other != text {
		t.Errorf("class %s, case %s prints other text than another class (- other, + this):\n%s", class, s.name, diff(other, text))
	}
	r.texts[name] = text
	r.save(t, resultFile(class, s.name), formatResults(calls))
	r.save(t, textFile(name), text)
}

// headLine is the beginning of the first line of a file of the record.
var headLine = regexp.MustCompile(`^# Recorded from (commit .*)\.\n`)

// readHeaded returns a file of the record without its first line, and the commit in that line. Both are "" if there is no such file.
func readHeaded(t *testing.T, name string) (content, from string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return "", ""
	}
	head := headLine.FindStringSubmatch(string(data))
	if err != nil || head == nil {
		t.Fatalf("%s does not begin with the commit that it is from: %v", name, err)
	}
	return string(data[len(head[0]):]), head[1]
}

// save writes a file of the record. It does not write a file whose content has not changed, so the file keeps its commit.
func (r *record) save(t *testing.T, name, content string) {
	t.Helper()
	if before, from := readHeaded(t, name); from != "" && before == content {
		return
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("# Recorded from "+r.source+".\n"+content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// formatResults returns the content of a file of results. For a place with the lines of an earlier place it only names that place.
func formatResults(calls []callResult) string {
	var b strings.Builder
	known := map[string]string{} // from the kind and lines of a place to its call and place
	for _, c := range calls {
		fmt.Fprintf(&b, "\n$ %d %s\n", c.n, c.call)
		items := sortedItems(c.wrote)
		for len(items) > 0 {
			first, n, lines := items[0], 0, ""
			for n < len(items) && items[n].kind == first.kind && items[n].place == first.place {
				lines += fmt.Sprintf("  %s %s\n", quoted(items[n].name), c.wrote[items[n]])
				n++
			}
			items = items[n:]
			at := fmt.Sprintf("%d %s", c.n, first.place)
			if same, ok := known[first.kind+"\n"+lines]; ok && n > 1 {
				fmt.Fprintf(&b, "%s %s as %s\n", first.kind, quoted(first.place), same)
				continue
			}
			known[first.kind+"\n"+lines] = at
			fmt.Fprintf(&b, "%s %s\n%s", first.kind, quoted(first.place), lines)
		}
	}
	return b.String()
}

// quoted returns a name for a line: unchanged, or in quotes if it is not one word.
func quoted(name string) string {
	if name == "" || strings.ContainsAny(name, " \"\n\t") {
		return strconv.Quote(name)
	}
	return name
}

// cutName returns the first name of a line and the rest.
func cutName(line string) (name, rest string) {
	if prefix, err := strconv.QuotedPrefix(line); err == nil && prefix[0] == '"' {
		name, _ = strconv.Unquote(prefix)
		return name, strings.TrimPrefix(line[len(prefix):], " ")
	}
	name, rest, _ = strings.Cut(line, " ")
	return name, rest
}

// readResults reads a file of results and its commit, which is empty if there is no such file.
func readResults(t *testing.T, name string) (calls []callResult, from string) {
	t.Helper()
	content, from := readHeaded(t, name)
	return parseResults(t, name, content), from
}

// parseResults parses the output of formatResults.
func parseResults(t *testing.T, name, content string) (calls []callResult) {
	t.Helper()
	places := map[string]state{} // by kind, call and place
	var kind, place string
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		entry, isEntry := strings.CutPrefix(line, "  ")
		call, isCall := strings.CutPrefix(line, "$ ")
		switch {
		case line == "":
		case isCall:
			number, args, _ := strings.Cut(call, " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
			calls = append(calls, callResult{n, args, state{}})
		case len(calls) == 0:
			t.Fatalf("%s: %q stands before any call", name, line)
		case isEntry:
			word, value := cutName(entry)
			places[kind][item{kind, place, word}] = value
			calls[len(calls)-1].wrote[item{kind, place, word}] = value
		default:
			var rest string
			kind, rest, _ = strings.Cut(line, " ")
			place, rest = cutName(rest)
			n := calls[len(calls)-1].n
			same, isSame := strings.CutPrefix(rest, "as ")
			lines := state{}
			places[fmt.Sprintf("%s %d %s", kind, n, place)] = lines
			places[kind] = lines
			if isSame {
				for i, value := range places[kind+" "+same] {
					lines[item{kind, place, i.name}] = value
				}
				maps.Copy(calls[len(calls)-1].wrote, lines)
			}
		}
	}
	return calls
}
