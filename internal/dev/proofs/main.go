// Command proofs runs the tests of the promises with the counts of a night (make nightly) or of a release (make nightly
// PROOFS=-release), and writes their figures to docs/reliability.md. A row that is not run keeps its earlier figure with its date
// and commit.
//
//	go run ./internal/dev/proofs -only P1,TestFlaws   # promises, or tests of them; fuzz: the fuzz targets, FuzzCSV: this one
//	go run ./internal/dev/proofs -scale 0.1           # a tenth of the counts
//
// A promise is a row of promises in table.go, its test a row of proofs. The test prints a line that begins with the promise:
// t.Logf("P7: ..."). A new fuzz target is a row of targets.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	only := flag.String("only", "", "promises to prove or tests of them, joined by commas; fuzz: the fuzz targets, "+
		"or names of them; \"\": all")
	scale := flag.Float64("scale", 1, "of the counts and of the time for fuzzing")
	release := flag.Bool("release", false, "the counts of a release")
	out := flag.String("report", "docs/reliability.md", "the report, which is read and written")
	flag.Parse()
	r := &proofRun{scale: *scale, release: *release}
	if *only != "" {
		r.only = strings.Split(*only, ",")
	}
	if err := r.all(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// proofRun is one run of the command.
type proofRun struct {
	scale   float64
	release bool
	only    []string
	failed  []string
	over    []string // proofs that took more than their budget
}

func (r *proofRun) wants(name string) bool { return r.only == nil || slices.Contains(r.only, name) }

// wantsProof reports whether a proof is to be run: its promise or one of its tests is named, or nothing is named. A proof for releases
// runs only before a release or if one of its tests is named.
func (r *proofRun) wantsProof(p proof) bool {
	if p.only && !r.release {
		return r.only != nil && slices.ContainsFunc(strings.Split(p.tests, "|"), r.wants)
	}
	return r.wants(p.promise) || slices.ContainsFunc(strings.Split(p.tests, "|"), r.wants)
}

// all runs the wanted proofs and writes the report after each of them.
func (r *proofRun) all(path string) error {
	report, err := readReport(path)
	if err != nil {
		return err
	}
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	began := time.Now()
	if err := os.WriteFile(path, []byte(report.text()), 0o644); err != nil {
		return err
	}
	note := func(key string, budget time.Duration, prove func() string) error {
		start, before := time.Now(), spent()
		figure := prove()
		took := proofRow{figure: figure, date: time.Now().UTC().Format(time.DateOnly), commit: strings.TrimSpace(string(commit)),
			took: time.Since(start).Round(time.Second).String(), spent: (spent() - before).Round(time.Second).String()}
		if now := spent() - before; now > budget && !r.release {
			r.over = append(r.over, fmt.Sprintf("%s took %v of %v", key, took.spent, budget))
		}
		report[key] = took
		return os.WriteFile(path, []byte(report.text()), 0o644)
	}
	for _, p := range proofs {
		if r.wantsProof(p) {
			if err := note(p.key(), p.budget, func() string { return r.prove(p) }); err != nil {
				return err
			}
		}
	}
	for _, t := range targets {
		if r.wants("fuzz") || r.wants(t.name) {
			if err := note(t.key(), fuzzBudget, func() string { return r.fuzz(t) }); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%v by the clock, %v of processors\n", time.Since(began).Round(time.Second), spent().Round(time.Second))
	for _, over := range r.over {
		fmt.Println("over its budget:", over)
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(r.failed, ", "))
	}
	return nil
}

// spent returns the processor time of all commands that have ended and their children. Unlike the elapsed time, it hardly grows when
// the machine is busy.
func spent() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// figures matches the lines in which tests print their figure for a promise.
var figures = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (P\d+): (.*)$`)

// prove runs the tests of a proof and returns their figures, or that they failed.
func (r *proofRun) prove(p proof) string {
	args := []string{"test", "-count", "1", "-v", "-tags", "prism", "-timeout", "12h", "-run", "^(" + p.tests + ")$", "./" + p.room}
	env := os.Environ()
	if p.cuda {
		root, _ := os.Getwd()
		library := filepath.Join(root, "build", "libfakecuda.so")
		if out, err := exec.Command("make", "-s", "-C", "kernels/cuda/fake",
			"BUILD="+filepath.Join(root, "build")).CombinedOutput(); err != nil {
			return r.fail(p.key(), fmt.Sprintf("%v: %s", err, out))
		}
		args[5] = "cuda,netgo,osusergo"
		env = append(env, "CGO_ENABLED=1", "CGO_CFLAGS=-O2 -I"+root+"/kernels/cuda/include",
			"CGO_LDFLAGS=-L"+root+"/kernels/cuda/driver/stub",
			"LATENTBEAM_LIBCUDA="+library)
	}
	wanted := p.counts
	if r.release && p.release != nil {
		wanted = p.release
	}
	for name, n := range wanted {
		env = append(env, fmt.Sprintf("%s=%d", name, max(1, int(float64(n)*r.scale))))
	}
	fmt.Printf("%s %s %s (budget %v)\n", p.promise, p.room, p.tests, p.budget)
	cmd := exec.Command("go", args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	var said []string
	for _, m := range figures.FindAllStringSubmatch(string(out), -1) {
		if m[1] == p.promise {
			said = append(said, strings.TrimSpace(m[2]))
		}
	}
	switch {
	case err != nil:
		return r.fail(p.key(), string(out))
	case len(said) == 0:
		return r.fail(p.key(), "no test prints a figure\n"+string(out))
	}
	fmt.Printf("  %s\n", strings.Join(said, "\n  "))
	return strings.Join(said, "; ")
}

// executed matches the number of executions in the last line of a fuzz target.
var executed = regexp.MustCompile(`execs: (\d+) \(`)

// fuzz runs one fuzz target.
func (r *proofRun) fuzz(t target) string {
	lasts := fuzzTime
	if r.release {
		lasts = fuzzTimeRelease
	}
	lasts = time.Duration(float64(lasts) * r.scale).Round(time.Second)
	var out []byte
	var counts [][]string
	for tries := 0; tries < 3 && len(counts) == 0; tries++ { // on a busy machine the time may not be enough for the corpus
		fmt.Printf("fuzz %s %s (%v)\n", t.room, t.name, lasts)
		var err error
		out, err = exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", lasts.String(),
			"-fuzzminimizetime", "10x", "./"+t.room).CombinedOutput()
		if err != nil {
			return r.fail(t.key(), string(out))
		}
		counts = executed.FindAllStringSubmatch(string(out), -1)
		lasts *= 4
	}
	if len(counts) == 0 {
		return r.fail(t.key(), string(out))
	}
	return counts[len(counts)-1][1] + " inputs, nothing found"
}

func (r *proofRun) fail(key, why string) string {
	fmt.Printf("FAILED %s:\n%s\n", key, why)
	r.failed = append(r.failed, key)
	return "**failed**"
}
