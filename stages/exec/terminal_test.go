package exec

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// TestTerminalIsNotFlooded: if a program sends messages without end, or long ones, only as many are shown as a person can
// read, and the number of messages that were not shown is reported.
func TestTerminalIsNotFlooded(t *testing.T) {
	log := testaid.Log(t)
	v, now := newTerminal(), time.Unix(1_000_000, 0)
	long := strings.Repeat("é", 100_000)
	for range 100_000 {
		v.show(now, slog.LevelError, long, "loud")
		v.show(now, slog.LevelDebug-8, "nobody reads this", "loud")
	}
	text := log.String()
	lines := strings.Count(text, "\n")
	if lines != messagesAtOnce || len(text) > messagesAtOnce*(messageBytes+300) || !strings.Contains(text, "and 198000 bytes") {
		t.Errorf("%d lines of %d bytes: %.300s", lines, len(text), text)
	}
	v.show(now.Add(messageEvery), slog.LevelWarn, "later", "loud")
	if text := log.String(); !strings.Contains(text, "later") || !strings.Contains(text, "messages_left_out=99980") {
		t.Errorf("%s", text[len(text)-300:])
	}
	v.show(now.Add(messageEvery), slog.LevelWarn, "too many", "loud")
	v.summarize("runs/1/exec.log")
	if text := log.String(); strings.Contains(text, "too many") || !strings.Contains(text, "messages=1 log=runs/1/exec.log") {
		t.Errorf("%s", text[len(text)-300:])
	}
}
