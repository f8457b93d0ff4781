package nntest

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"latentbeam/kernels"
)

// RoundsEnv lets Rounds run where it is set to anything.
const RoundsEnv = "LATENTBEAM_BENCH_BLOCKS"

// Measured is a case that can be timed.
type Measured struct {
	Run    func()           // what is timed
	Result func() []float32 // what it gives, for comparison
	Need   func() int64     // device memory that the planner counts with for it; nil where it has no word for it
}

// Rounds lets a script measure models, or parts of one, in turns with something else. Every line of standard
// input names a case: open makes it when the name changes, and its run is timed. The answer is a line of seconds.
// "result PATH" asks for what the last case gives: fp32, little-endian; "memory" for the most bytes of the device
// that its tensors held at once, and for those that were planned (0: unknown); "class" for
// the numeric class. Without RoundsEnv the test is skipped.
func Rounds(t *testing.T, be kernels.Backend, open func(name string) Measured) {
	t.Helper()
	if os.Getenv(RoundsEnv) == "" {
		t.Skip("a script sets " + RoundsEnv + " and asks for rounds")
	}
	var last string
	var m Measured
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		line := lines.Text()
		path, result := strings.CutPrefix(line, "result ")
		switch {
		case result && m.Run != nil:
			if err := os.WriteFile(path, Tensor(m.Result(), 1).Data, 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Println("written")
		case line == "memory" && m.Run != nil:
			fmt.Println("memory", peak(be), m.need())
		case line == "class":
			fmt.Println("class", be.Class())
		default:
			if m.Run == nil || line != last {
				last, m = line, open(line)
			}
			start := time.Now()
			m.Run()
			fmt.Printf("seconds %.6f\n", time.Since(start).Seconds())
		}
	}
}

func (m Measured) need() int64 {
	if m.Need == nil {
		return 0
	}
	return m.Need()
}

// peak is 0 for backends that do not count.
func peak(be kernels.Backend) int64 {
	if peak := be.Capabilities().Peak; peak != nil {
		return peak()
	}
	return 0
}

// Need returns what turns an estimate of the planner into a number; its error ends the test.
func Need(t testing.TB) func(bytes int64, err error) int64 {
	return func(bytes int64, err error) int64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
}
