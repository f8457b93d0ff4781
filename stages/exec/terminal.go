package exec

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits for the log messages of a stage's programs outside of the log file.
const (
	messagesAtOnce = 20               // messages that are shown as they arrive
	messageEvery   = 10 * time.Second // interval for further messages
	messageBytes   = 2000             // largest length of a message
)

// terminal forwards log messages of programs to the job's log, limited to what a person can read.
type terminal struct {
	mu      sync.Mutex
	limit   *rate.Limiter
	leftOut int
}

func newTerminal() *terminal {
	return &terminal{limit: rate.NewLimiter(rate.Every(messageEvery), messagesAtOnce)}
}

// show forwards a message, or counts it. Debug messages that are not displayed do not count.
func (t *terminal) show(now time.Time, level slog.Level, text, program string) {
	ctx := context.Background()
	if !slog.Default().Enabled(ctx, level) {
		return
	}
	t.mu.Lock()
	allowed := t.limit.AllowN(now, 1)
	leftOut := t.leftOut
	if t.leftOut++; allowed {
		t.leftOut = 0
	}
	t.mu.Unlock()
	if !allowed {
		return
	}
	if rest := len(text) - messageBytes; rest > 0 {
		text = strings.ToValidUTF8(text[:messageBytes], "") + fmt.Sprintf(" [... and %d bytes]", rest)
	}
	facts := []any{"program", program}
	if leftOut > 0 {
		facts = append(facts, "messages_left_out", leftOut)
	}
	slog.Log(ctx, level, text, facts...)
}

// summarize reports how many messages at the end were not shown.
func (t *terminal) summarize(log string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leftOut > 0 {
		slog.Warn("log messages of programs were not shown, only kept in their log", "messages", t.leftOut, "log", log)
	}
	t.leftOut = 0
}
