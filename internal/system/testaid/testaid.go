// Package testaid has helpers for tests of several packages. Only tests import it.
//
// Helpers for models and devices belong in nntest, gputest and kerneltest. Assertions that fit in a line belong in the test.
package testaid

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Quiet runs the tests of m, for a TestMain, and exits. It discards log records unless -v is given, because a failing test is hard
// to find among hundreds of lines.
func Quiet(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	os.Exit(m.Run())
}

// Text is text that goroutines write while a test reads it.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *Text) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(data)
}

// String returns the text so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Log returns a text that receives all log records until the end of the test.
func Log(t *testing.T) *Text {
	var log Text
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}

// Linear fails if the time of work grows faster than the length of its text: with 16 times as many units after prefix, it must not
// take 256 times as long.
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
	// Both measurements take about the same time, so that other programs slow both equally. That does not always hold, so one good
	// attempt of several is enough.
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
