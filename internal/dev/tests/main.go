// Command tests runs go test and shortens its output: it prints the output of failed tests, the last line of each package, and at the
// end which tests were skipped, and why. `make test` and `make check` use it.
//
//	go run ./internal/dev/tests [-C directory] [-promises] [flags of go test] packages
//	go run ./internal/dev/tests -rest [flags of go test]
//
// With -promises it also fails if no test showed a promise of docs/reliability.md, so no promise depends on skipped tests alone.
// With -rest it runs the tests that a short run skips or shortens.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	args, dir := os.Args[1:], ""
	if len(args) > 1 && args[0] == "-C" {
		dir, args = args[1], args[2:]
	}
	all := len(args) > 0 && args[0] == "-promises"
	others := len(args) > 0 && args[0] == "-rest"
	if all || others {
		args = args[1:]
	}
	if others {
		names, packages, err := rest(".")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		args = append(append(args, "-run", "^("+strings.Join(names, "|")+")$"), packages...)
	}
	began := time.Now()
	// -count 1 turns off the cache of go test, because it does not know that some tests build the program or read the source.
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), append([]string{"test", "-json", "-count=1"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := newReport(os.Stdout)
	err = r.read(out)
	ended := cmd.Wait()
	r.skips()
	spent := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("%v by the clock, %v of processors, building included\n", time.Since(began).Round(time.Second), spent.Round(time.Second))
	if all {
		ended = cmp.Or(ended, r.promises())
	}
	if err = cmp.Or(err, ended); err != nil {
		fmt.Println("FAIL:", err)
		os.Exit(1)
	}
}

// listed matches the rows of docs/reliability.md, which begin with the name of a promise.
var listed = regexp.MustCompile(`(?m)^\| (P\d+) \|`)

// event is a line of go test -json (cmd/test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // import path of a package that does not build
	Test        string
	Output      string
	FailedBuild string
}

// report collects the output of tests.
type report struct {
	out   io.Writer
	said  map[string][]string // output of running tests, by package and test
	why   map[string][]string // skipped tests by their reason
	shown map[string]bool     // promises that a test showed
}

func newReport(out io.Writer) *report {
	return &report{out: out, said: map[string][]string{}, why: map[string][]string{}, shown: map[string]bool{}}
}

var (
	logged  = regexp.MustCompile(`^\s+\S+\.go:\d+: `)
	promise = regexp.MustCompile(`^P\d+: `)
	part    = regexp.MustCompile(`^NOT [A-Z]+`) // printed by a test that skipped a part of its work
	state   = regexp.MustCompile(`^\s*(=== |--- (PASS|SKIP|BENCH))`)
)

// read reads the lines of go test -json.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(r.out, "%s", line)
			} else {
				r.record(e)
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// record handles an event. It prints a failed test at once, with its output.
func (r *report) record(e event) {
	key := e.Package + "\t" + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if e.Test == "" && !state.MatchString(e.Output) && e.Output != "PASS\n" && !strings.Contains(e.Output, "[no test files]") {
			fmt.Fprint(r.out, e.Output) // last lines of packages, and output outside of tests
			return
		}
		r.said[key] = append(r.said[key], e.Output)
		text := logged.ReplaceAllString(e.Output, "")
		if text == e.Output {
			return
		}
		if promise.MatchString(text) {
			r.shown[strings.TrimSuffix(promise.FindString(text), ": ")] = true
		} else if part.MatchString(text) {
			r.skip(e, text)
		}
	case "skip":
		if e.Test != "" {
			r.skip(e, r.reason(key))
		}
		delete(r.said, key)
	case "pass":
		delete(r.said, key)
	case "fail":
		for _, line := range r.said[key] {
			if !state.MatchString(line) {
				fmt.Fprint(r.out, line)
			}
		}
		delete(r.said, key)
	}
}

// reason returns the last line that a skipped test logged.
func (r *report) reason(key string) string {
	reason := "it does not say why"
	for _, line := range r.said[key] {
		if logged.MatchString(line) {
			reason = logged.ReplaceAllString(line, "")
		}
	}
	return reason
}

func (r *report) skip(e event, why string) {
	why = strings.TrimSpace(why)
	test := strings.TrimPrefix(e.Package, "latentbeam/") + " " + e.Test
	if !slices.Contains(r.why[why], test) {
		r.why[why] = append(r.why[why], test)
	}
}

// skips prints the skipped tests by reason.
func (r *report) skips() {
	if len(r.why) == 0 {
		return
	}
	fmt.Fprintln(r.out, "\nskipped, and why:")
	for _, why := range slices.Sorted(maps.Keys(r.why)) {
		const most = 6
		tests := r.why[why]
		more := ""
		if len(tests) > most {
			tests, more = tests[:most], fmt.Sprintf(" and %d more", len(tests)-most)
		}
		fmt.Fprintf(r.out, "  %s: %s%s\n", why, strings.Join(tests, ", "), more)
	}
}

// promises fails if a promise was not shown. On other systems than the tested one it only prints that.
func (r *report) promises() error {
	text, err := os.ReadFile("docs/reliability.md")
	missing := strings.Join(r.missing(string(text)), ", ")
	system := runtime.GOOS + "/" + runtime.GOARCH
	switch {
	case err != nil || missing == "":
		return err
	case system != "linux/amd64":
		fmt.Fprintf(r.out, "NOT SHOWN on %s: the promises %s\n", system, missing)
		return nil
	}
	return errors.New("no test showed the promises " + missing)
}

// missing returns the promises in text, the content of docs/reliability.md, that no test showed.
func (r *report) missing(text string) (names []string) {
	for _, m := range listed.FindAllStringSubmatch(text, -1) {
		if !r.shown[m[1]] && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
