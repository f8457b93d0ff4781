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

// RoundsEnv enables Rounds if it is set to any value.
const RoundsEnv = "LATENTBEAM_BENCH_BLOCKS"

// Measured is a case that can be timed.
type Measured struct {
	Run    func()           // what is timed
	Result func() []float32 // the result, for comparison
	Need   func() int64     // device memory that the planner estimates for it; nil if there is no estimate
}

// Rounds lets a script measure models, or parts of a model, in turns with another program. Every line of standard input names a
// case: open makes it when the name changes, and its run is timed. The answer is a line with the seconds. "result PATH" writes
// the result of the last case: fp32, little-endian. "memory" returns the largest number of bytes that its tensors held on the
// device, and the planned number (0: unknown). "class" returns the numeric class. The test is skipped if RoundsEnv is not set.
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

// peak returns 0 for backends that do not count memory.
func peak(be kernels.Backend) int64 {
	if peak := be.Capabilities().Peak; peak != nil {
		return peak()
	}
	return 0
}

// Need returns a function that returns the planner's estimate; an error ends the test.
func Need(t testing.TB) func(bytes int64, err error) int64 {
	return func(bytes int64, err error) int64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
}
