package same

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	durations = regexp.MustCompile(`([ (])(?:\d+(?:\.\d+)?(?:h|m|s|ms|µs|ns))+\b`)
	// built matches the line of the version, whose end describes the build.
	built    = regexp.MustCompile(`(?m)^(latentbeam \S+) .*$`)
	progress = regexp.MustCompile(`(?m)^(?:[-0-9T:]+Z )?\d+/\d+ rows, .*\n`)
	// waiting matches the lines that a command prints if something takes longer than two seconds.
	waiting = regexp.MustCompile(`(?m)^(?:[-0-9T:]+Z )?(?:planning|opening the job): .* \.\.\.\n`)
	// reportPage matches the folder of a run, whose name contains the time.
	reportPage = regexp.MustCompile(`runs/[0-9A-Za-z-]+/`)
	spaces     = regexp.MustCompile(` +`)
	// timings matches the tables of a run with its times.
	timings = regexp.MustCompile(`(?m)^ *(stage busy|kernel stage) (.+\n)+\n?`)
)

// general replaces the directory of the case, the numeric class and the addresses of workers by fixed names.
func (s *shell) general(text string) string {
	text = strings.ReplaceAll(text, s.dir, "DIR")
	text = strings.NewReplacer("cpu/avx2", "cpu/CLASS", "cpu/go", "cpu/CLASS").Replace(text)
	for name, addr := range s.addrs {
		text = strings.ReplaceAll(text, addr, "$"+name)
	}
	return text
}

// canonicalOutput removes from the output of a command everything that depends on time.
func (s *shell) canonicalOutput(args []string, text string) string {
	text = waiting.ReplaceAllString(built.ReplaceAllString(s.general(text), "$1 BUILD"), "")
	if len(args) == 0 || args[0] != "run" && args[0] != "retry" {
		return text
	}
	text = spaces.ReplaceAllString(text, " ")
	text = progress.ReplaceAllString(timings.ReplaceAllString(text, ""), "")
	text = reportPage.ReplaceAllString(text, "runs/RUN/")
	return durations.ReplaceAllString(text, "${1}TIME")
}

// maxAgain is how many bytes are shown of a line that the case has already printed.
const maxAgain = 60

// brief shortens long lines that the case has already printed.
func (s *shell) brief(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		known := s.printed[line]
		s.printed[line] = true
		if known && len(line) > maxAgain+20 {
			line = strings.ToValidUTF8(line[:maxAgain], "") + "... (as before)\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// field is a value in a JSON text: its path, with dots between names, and its text.
type field struct{ name, value string }

// flatten returns the values of a JSON text, in the order of their paths. The path of an object in a list has the object's name or source, or
// else its number. A list of numbers or of words is one value.
func flatten(t *testing.T, name string, data []byte) (out []field) {
	t.Helper()
	var value any
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if len(data) == 0 {
		return nil
	}
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	walk("", value, &out)
	slices.SortStableFunc(out, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return out
}

// walk appends the values below a name.
func walk(name string, value any, out *[]field) {
	below := func(part string) string { return strings.TrimPrefix(name+"."+part, ".") }
	switch v := value.(type) {
	case map[string]any:
		for part, inner := range v {
			walk(below(part), inner, out)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		objects := false
		for i, inner := range v {
			object, ok := inner.(map[string]any)
			objects = objects || ok
			if ok {
				part, name := listName(object, i)
				delete(object, part)
				walk(below(name), inner, out)
			}
		}
		if objects {
			return
		}
	}
	text, _ := json.Marshal(value) // cannot fail for decoded JSON
	*out = append(*out, field{name, short(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text)))})
}

// listName returns the field of an object in a list that identifies it, and the value of this field.
func listName(object map[string]any, at int) (part, name string) {
	for _, part := range []string{"source", "stage", "kernel", "host", "name"} {
		if text, ok := object[part].(string); ok && len(object) > 1 {
			return part, text
		}
	}
	return "", strconv.Itoa(at + 1)
}

// facts matches the fields of summary.json that differ from run to run: times, rates, and facts about memory and devices.
var facts = regexp.MustCompile(`(^|\.)(\w+_(ns|per_s|percent|c|w)|seconds|batches|peak_memory_bytes|latentbeam_version)$|` +
	`^run\.(memory|driver)\.|\.driver\.`)

// summary returns the fields of a summary.json that differ from the previous one. Of the files that it lists, it returns only the names if
// their sizes are right.
func (s *shell) summary(now state, name string, data []byte, flags map[string]bool) string {
	fields, kernels := map[string]string{}, map[string]string{}
	for _, f := range flatten(s.t, name, []byte(s.general(string(data)))) {
		file, isFile := strings.CutPrefix(f.name, "files.")
		at, count, isKernel := cutKernel(f.name)
		switch {
		case f.name == "input_sha256": // depends on the class
			now[item{"files", path.Dir(name), path.Base(name)}] = "text, input_sha256=" + f.value
		case facts.MatchString(f.name), strings.HasPrefix(f.name, "config.") && !flags["whole"]:
		case isKernel && flags["counts"]:
			kernels[at] += " " + count + "=" + f.value
		case isKernel:
		case isFile && s.isSize(path.Join(path.Dir(name), file), f.value):
			fields["files"] = strings.TrimSpace(fields["files"] + " " + file)
		default:
			fields[f.name] = f.value
		}
	}
	for at, counts := range kernels {
		fields[at] = strings.TrimSpace(counts)
	}
	before := s.summaries[name]
	s.summaries[name] = fields
	var lines []string
	for name, value := range fields {
		if before[name] != value {
			lines = append(lines, fmt.Sprintf("  %s: %s\n", name, value))
		}
	}
	for name := range before {
		if _, ok := fields[name]; !ok {
			lines = append(lines, fmt.Sprintf("  %s: no more\n", name))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	return name + "\n" + strings.Join(lines, "") + "\n"
}

// cutKernel splits the path of a kernel's count into the path of the kernel and the name of the count.
func cutKernel(name string) (at, count string, ok bool) {
	i := strings.LastIndex(name, ".")
	if !strings.Contains(name, ".kernels.") {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// isSize reports whether a file has a given size.
func (s *shell) isSize(name, size string) bool {
	info, err := os.Stat(s.path(name))
	return err == nil && strconv.FormatInt(info.Size(), 10) == size
}

var (
	hidden  = regexp.MustCompile(`(?s)<(style|script|svg)\b.*?</(style|script|svg)>`)
	data    = regexp.MustCompile(`(?s)<script type="application/json"[^>]*>(.*?)</script>`)
	labels  = regexp.MustCompile(`<[^>]* (?:aria-label|alt|placeholder|title)="([^"]*)"[^>]*>`)
	links   = regexp.MustCompile(`<a [^>]*href="([^"]*)"[^>]*>`)
	blocks  = regexp.MustCompile(`</?(p|div|li|ul|h1|h2|h3|dl|dt|dd|tr|table|section|details|summary|header|footer|main|button|noscript|select|title|label|option)\b[^>]*>`)
	tags    = regexp.MustCompile(`<[^>]*>`)
	nothing = regexp.MustCompile(`\n[ \t]*(\n[ \t]*)+`)
)

// readable returns the text of a page: its words, the labels of elements without words, the addresses of its links, and the data of
// its scripts, without styles and code.
func readable(page string) string {
	page = data.ReplaceAllString(page, "\n$1\n")
	page = hidden.ReplaceAllString(page, "")
	page = labels.ReplaceAllString(page, "\n[$1]\n")
	page = links.ReplaceAllString(page, "[$1] ")
	page = tags.ReplaceAllString(blocks.ReplaceAllString(page, "\n"), "")
	return strings.TrimSpace(nothing.ReplaceAllString(html.UnescapeString(page), "\n")) + "\n"
}

// show returns the text of a file for people, without keys of rows, which differ between classes.
func (s *shell) show(name string) string {
	paths, err := filepath.Glob(s.path(name))
	if err != nil || len(paths) != 1 {
		s.t.Fatalf("show %s: %d files, %v", name, len(paths), err)
	}
	content, err := os.ReadFile(paths[0])
	if err != nil {
		s.t.Fatal(err)
	}
	text := s.general(string(content))
	if path.Ext(name) == ".html" {
		text = readable(text)
	}
	return "show " + name + "\n" + keys.ReplaceAllString(text, "KEY") + "\n"
}

// keys matches keys of rows, whole or shortened to the name of a folder.
var keys = regexp.MustCompile(`\b(?:[0-9a-f]{2}/)?[0-9a-f]{64}\b`)
