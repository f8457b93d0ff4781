package nntest

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"
)

// RoundsEnv lets Rounds run where it is set to anything.
const RoundsEnv = "LATENTBEAM_BENCH_BLOCKS"

// Rounds lets a script measure parts of a model in turns with something else. Every line of standard input
// names a case: open makes it when the name changes, and its run is timed. The answer is a line of seconds.
// Without RoundsEnv the test is skipped.
func Rounds(t *testing.T, open func(name string) (run func())) {
	t.Helper()
	if os.Getenv(RoundsEnv) == "" {
		t.Skip("a script sets " + RoundsEnv + " and asks for rounds")
	}
	var last string
	var run func()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if name := lines.Text(); run == nil || name != last {
			last, run = name, open(name)
		}
		start := time.Now()
		run()
		fmt.Printf("seconds %.6f\n", time.Since(start).Seconds())
	}
}
