package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/engine/memory"
	"latentbeam/internal/engine/schedule"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/layout"
)

var updateMakespans = flag.Bool("update-makespans", false, "write testdata/makespans.golden")

// golden compares lines with a file of testdata, which -update-makespans writes.
func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text := strings.Join(lines, "\n") + "\n"
	if *updateMakespans {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i, line := range lines {
		if i >= len(want) || line != want[i] {
			t.Errorf("line %d of %s is now\n%s\nwant\n%s", i+1, path, line, append(want, make([]string, len(lines))...)[i])
		}
	}
	if len(want) > len(lines) {
		t.Errorf("%s has %d lines, not %d", path, len(want), len(lines))
	}
}

// mixedJobs are n videos of random shapes.
func mixedJobs(seed uint64, n int) []int {
	r := rand.New(rand.NewPCG(seed, 7))
	jobs := make([]int, n)
	for i := range jobs {
		jobs[i] = r.IntN(len(published))
	}
	return jobs
}

// TestMakespansOfPlayedRuns: what a plan foresees is exactly what it was at d027f15. A played run has one clock and no
// goroutines, so its seconds and its leases do not vary.
func TestMakespansOfPlayedRuns(t *testing.T) {
	w := newWorld(t)
	var lines []string
	foresee := func(name string, f schedule.Foresight) {
		t.Helper()
		out, err := f.Outlook()
		line := fmt.Sprintf("%s: %.12g s, error %v", name, out.Seconds, err)
		for _, l := range out.Leases {
			line += fmt.Sprintf("; %s %v: %d in %d on %d, %d times", l.Stage, l.Shape, l.Elements, l.Batches, l.Devices, l.Times)
		}
		lines = append(lines, line)
	}
	for _, n := range []int{1, 2, 7, 8, 9, 10, 13, 15, 16, 18, 25, 30, 33, 40, 299, 1000} {
		foresee(fmt.Sprint(n, " equal"), w.foresight(t, slices.Repeat([]int{12}, n)))
	}
	for seed := range uint64(6) {
		foresee(fmt.Sprint("mixed ", seed), w.foresight(t, mixedJobs(seed, 30+100*int(seed))))
	}
	for _, width := range []int{1, 2, 3, 8} {
		f := w.foresight(t, mixedJobs(9, 20))
		f.Width = width
		foresee(fmt.Sprint("mixed on sets of ", width), f)
	}
	shared := w.foresight(t, slices.Repeat([]int{12}, 9))
	shared.Predictions = schedule.NewPredictions()
	for _, width := range []int{0, 1, 4, 8, 0} { // one table of predictions for all
		shared.Width = width
		foresee(fmt.Sprint("again on sets of ", width), shared)
	}
	many := w.foresight(t, mixedJobs(11, 40))
	encode := stages.Step{Name: "encode", Stage: timed{work: 1e13}, Gives: stages.KindPrompt,
		Spec: stages.Spec{Name: "encode", In: stages.KindPrompt, Out: stages.KindPrompt}}
	decode := stages.Step{Name: "decode", Stage: timed{work: 3e14}, Gives: stages.KindFrames,
		Spec: stages.Spec{Name: "decode", In: stages.KindLatents, Out: stages.KindFrames}}
	many.Steps = slices.Concat([]stages.Step{encode}, many.Steps, []stages.Step{decode})
	for _, most := range []int{0, 1, 3} {
		many.MaxBatch = most
		foresee(fmt.Sprint("three stages, batches of ", most), many)
	}
	many.MaxBatch = 0
	denoise := func(shape int) memory.Fact {
		r := row(0, shape)
		return memory.Fact{Stage: "denoise", Shape: schemas.BucketOf(r).String(), Estimated: 100, Measured: 150, Most: 2,
			Least: 2, Limit: 70e9}
	}
	for shape := range published {
		many.Facts = append(many.Facts, denoise(shape))
	}
	foresee("three stages that remember", many)
	lines = append(lines, fmt.Sprint("bound of 9: ", w.bound(slices.Repeat([]int{12}, 9))))
	for _, name := range []string{"2xA100-80GB", "16xH100-80GB"} {
		d, err := layout.ParseDevices(name)
		if err != nil {
			t.Fatal(err)
		}
		other := &world{devices: d, cache: map[string]float64{}}
		foresee("mixed on "+name, other.foresight(t, mixedJobs(3, 50)))
	}
	golden(t, "makespans.golden", lines)
}
