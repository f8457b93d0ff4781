// Package testaid has what tests of several packages do alike and no package of theirs owns.
//
// What never enters: anything of the models or of a device (nntest, gputest, kerneltest), and assertions that a line of
// a test can make. Only tests import it.
package testaid

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// Quiet runs the tests of m, for a TestMain, and leaves out what is logged, but with -v: a failing test is not found
// among hundreds of lines. It does not return.
func Quiet(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	os.Exit(m.Run())
}

// Log returns what is logged until the end of the test.
func Log(t *testing.T) *bytes.Buffer {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}

// Linear fails where work on prefix and many units takes much more time than its length asks for: 16 times the text,
// not 256 times the time.
func Linear(t *testing.T, name, prefix, unit string, work func(text string)) {
	t.Helper()
	took := func(times, size int) time.Duration {
		text := prefix + strings.Repeat(unit, size/len(unit))
		start := time.Now()
		for range times {
			work(text)
		}
		return time.Since(start)
	}
	took(1, 1<<12)
	// Both sides work for about as long, so that other programs slow both alike; not each time, so one try of many counts.
	const tries = 10
	for try := 1; ; try++ {
		small, large := took(16, 1<<14), took(1, 1<<18)
		if large <= 6*small+50*time.Millisecond {
			return
		}
		if try == tries {
			t.Errorf("%s: 16 times 16 KiB take %v, 256 KiB take %v", name, small, large)
			return
		}
	}
}
