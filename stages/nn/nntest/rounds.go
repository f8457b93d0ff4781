package nntest

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// RoundsEnv lets Rounds run where it is set to anything.
const RoundsEnv = "LATENTBEAM_BENCH_BLOCKS"

// Rounds lets a script measure parts of a model in turns with something else. Every line of standard input
// names a case: open makes it when the name changes, and its run is timed. The answer is a line of seconds.
// "result PATH" asks for what the last run gave: fp32, little-endian. Without RoundsEnv the test is skipped.
func Rounds(t *testing.T, open func(name string) (run func(), result func() []float32)) {
	t.Helper()
	if os.Getenv(RoundsEnv) == "" {
		t.Skip("a script sets " + RoundsEnv + " and asks for rounds")
	}
	var last string
	var run func()
	var result func() []float32
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "result "); ok && run != nil {
			if err := os.WriteFile(path, Tensor(result(), 1).Data, 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Println("written")
			continue
		}
		if name := lines.Text(); run == nil || name != last {
			last = name
			run, result = open(name)
		}
		start := time.Now()
		run()
		fmt.Printf("seconds %.6f\n", time.Since(start).Seconds())
	}
}
