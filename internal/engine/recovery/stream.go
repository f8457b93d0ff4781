package recovery

import (
	"log/slog"
	"sync"

	"latentbeam/schemas"
)

// staying is how many blocks of the stage stay in memory, 0 where none can pass.
func (b *Tries) staying() int {
	l := b.step.Capabilities().Loading
	if l == nil || l.Staying == nil {
		return 0
	}
	stay, _ := l.Staying()
	return stay
}

// buffers is how many blocks are there beside those that stay, where blocks pass: the one at work and the next.
const buffers = 2

// stream lets half as many blocks be in memory as when so many of them stayed, and reports whether that is fewer: what
// a device holds is exchanged at its next use, and results are the same. Another batch may have seen to it already.
func (b *Tries) stream(row *schemas.PromptRow, staying int) bool {
	l := b.step.Capabilities().Loading
	if l == nil || l.Staying == nil {
		return false
	}
	b.streams.mu.Lock() // one at a time
	defer b.streams.mu.Unlock()
	now, of := l.Staying()
	if now < staying {
		return true
	}
	there := now
	if now < of {
		there += buffers
	}
	if there <= buffers {
		return false
	}
	stay := max(0, there/2-buffers)
	slog.Info("weights pass through memory: an element does not fit beside them", "stage", b.step.Name, "stay", stay,
		"of", of)
	l.Stream(stay)
	if b.Freed != nil {
		b.Freed(b.stage, *row, stay)
	}
	if b.streams.stay == nil {
		b.streams.stay = map[string]int{}
	}
	b.streams.stay[b.step.Name] = stay
	return true
}

// streams is what passes through memory since elements did not fit beside it.
type streams struct {
	mu   sync.Mutex
	stay map[string]int // by step: how many blocks stay
}

// Stays returns how many blocks of a step other processes are to let stay; nil: as many as they do.
func (r *Recovery) Stays(step string) *int {
	r.streams.mu.Lock()
	defer r.streams.mu.Unlock()
	if stay, ok := r.streams.stay[step]; ok {
		return &stay
	}
	return nil
}
