package same

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	durations = regexp.MustCompile(`([ (])(?:\d+(?:\.\d+)?(?:h|m|s|ms|µs|ns))+\b`)
	built     = regexp.MustCompile(`(?m)^(latentbeam \S+) .*$`)
	progress  = regexp.MustCompile(`(?m)^(?:[-0-9T:]+Z )?\d+/\d+ rows, .*\n`)
	// reportPage is the folder of a run, which has the time in its name.
	reportPage = regexp.MustCompile(`runs/[0-9A-Za-z-]+/`)
	spaces     = regexp.MustCompile(` +`)
	// timings are the tables of a run that show where its time went.
	timings = regexp.MustCompile(`(?m)^ *(stage busy|kernel stage) (.+\n)+\n?`)
	// facts are the lines of summary.json with times, rates, and what happened on which device.
	facts = regexp.MustCompile(`(?m)^( *"(?:seconds|busy_ns|open_ns|plan_ns|rows_ns|tables_ns|gflop_per_s|gb_per_s|batches|mean_utilization_percent|` +
		`peak_memory_bytes|max_temperature_c|mean_power_w|max_power_w)": )[-+.e0-9]+`)
	// memory is what batches were estimated to take and took: which rows meet in a batch depends on time.
	memory = regexp.MustCompile(`(?m),\n    "memory": \[\n(?:      .*\n)+    \]`)
	driver = regexp.MustCompile(`(?m)^( *"driver": \{\n)(?: *".*\n)+`)
	input  = regexp.MustCompile(`"input_sha256": "[0-9a-f]+"`)
	sizes  = regexp.MustCompile(`(?m)^    "(\S+)": (\d+)(,?)$`)
	calls  = regexp.MustCompile(`(?m),\n *"kernels": \[\n(?:          .*\n)+ *\]`)
	stage  = regexp.MustCompile(`\{\n *("stage": ".*"),\n *"busy_ns": FACT\n *\}`)
	job    = regexp.MustCompile(`(?m),\n  "config": \{\n(?:   .*\n)+  \}`)
)

// general replaces the directory, the numeric class and addresses of workers.
func (s *shell) general(text string) string {
	text = strings.ReplaceAll(text, s.dir, "DIR")
	text = strings.NewReplacer("cpu/avx2", "cpu/CLASS", "cpu/go", "cpu/CLASS").Replace(text)
	for name, addr := range s.addrs {
		text = strings.ReplaceAll(text, addr, "$"+name)
	}
	return text
}

// canonicalOutput leaves out of what a command printed whatever depends on time.
func (s *shell) canonicalOutput(args []string, text string) string {
	text = built.ReplaceAllString(s.general(text), "$1 BUILD")
	if len(args) == 0 || args[0] != "run" && args[0] != "retry" {
		return text
	}
	text = spaces.ReplaceAllString(text, " ")
	text = progress.ReplaceAllString(timings.ReplaceAllString(text, ""), "")
	text = reportPage.ReplaceAllString(text, "runs/RUN/")
	return durations.ReplaceAllString(text, "${1}TIME")
}

// canonicalSummary replaces the run facts of a summary.json. Sizes of files are compared with the files.
func (s *shell) canonicalSummary(name, text string, counts bool) string {
	text = memory.ReplaceAllString(s.general(text), "")
	text = driver.ReplaceAllString(facts.ReplaceAllString(text, "${1}FACT"), "$1")
	text = sizes.ReplaceAllStringFunc(text, func(line string) string {
		m := sizes.FindStringSubmatch(line)
		info, err := os.Stat(s.path(path.Join(path.Dir(name), m[1])))
		if err != nil || strconv.FormatInt(info.Size(), 10) != m[2] {
			return line
		}
		return fmt.Sprintf("    %q: SIZE%s", m[1], m[3])
	})
	if !counts {
		text = calls.ReplaceAllString(text, "")
	}
	return text
}

// snapshot notes what call number n of the program wrote, changed and removed, and returns the summaries among it.
func (s *shell) snapshot(n int, flags map[string]bool) (text string) {
	s.t.Helper()
	now, ledgers := map[string]string{}, map[string]map[string]string{} // digests by path, records by directory and key
	err := filepath.WalkDir(s.dir, func(full string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(s.dir, full)
		if err = errors.Join(err, relErr); err != nil || !d.Type().IsRegular() || s.skipped(filepath.ToSlash(name)) {
			return err
		}
		name = filepath.ToSlash(name)
		data := s.read(name)
		switch {
		case strings.HasSuffix(name, ".seg"):
			dir := path.Dir(name)
			if ledgers[dir] == nil {
				ledgers[dir] = map[string]string{}
			}
			ledgerRecords(s.t, name, data, ledgers[dir])
			return nil
		case strings.HasSuffix(name, "job.json"):
			data = []byte(s.general(string(data)))
		case strings.HasSuffix(name, "summary.json") && s.seen[name+" as written"] != digest(data):
			s.seen[name+" as written"] = digest(data)
			data = []byte(s.canonicalSummary(name, string(data), flags["counts"]))
			text += "== " + name + "\n" + shown(string(data), flags["whole"]) + "\n"
		case strings.HasSuffix(name, "summary.json"):
			now[name] = s.seen[name]
			return nil
		}
		now[name] = digest(data)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for dir, records := range ledgers {
		now[dir] = digest([]byte(strings.Join(slices.Sorted(maps.Values(records)), "")))
	}
	s.changes(n, now)
	return text
}

// changes notes the files that are new, others or gone after call number n.
func (s *shell) changes(n int, now map[string]string) {
	for name, sum := range now {
		if s.seen[name] != sum {
			s.wrote = append(s.wrote, [2]string{fmt.Sprintf("%02d/%s", n, name), sum})
		}
		s.seen[name] = sum
	}
	for name := range s.seen {
		if _, ok := now[name]; !ok && !strings.HasSuffix(name, " as written") {
			s.wrote = append(s.wrote, [2]string{fmt.Sprintf("%02d/%s", n, name), "removed"})
			delete(s.seen, name)
		}
	}
	slices.SortFunc(s.wrote, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
}

// shown is the part of a canonical summary that people read.
func shown(summary string, whole bool) string {
	summary = input.ReplaceAllString(summary, `"input_sha256": HASH`)
	if whole {
		return summary
	}
	summary = job.ReplaceAllString(calls.ReplaceAllString(summary, ""), "")
	return stage.ReplaceAllString(summary, "$1")
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

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
