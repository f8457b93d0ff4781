package recovery

import (
	"log/slog"
	"sync"

	"latentbeam/schemas"
)

// staying returns the number of resident blocks of the stage; 0: the stage cannot stream blocks.
func (b *Tries) staying() int {
	l := b.step.Capabilities().Loading
	if l == nil || l.Staying == nil {
		return 0
	}
	stay, _ := l.Staying()
	return stay
}

// buffers is the number of blocks in memory beside the resident ones while blocks stream: the current and the next.
const buffers = 2

// stream halves the number of resident blocks and reports whether it could. staying is the number before the attempt: if another
// batch has lowered it since, stream only returns true. Devices follow at the next use of the stage. Results do not change.
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

// streams records the stages whose weights stream because elements did not fit beside them.
type streams struct {
	mu   sync.Mutex
	stay map[string]int // resident blocks, by step
}

// Stays returns how many blocks of a step other processes may keep resident; nil: no limit.
func (r *Recovery) Stays(step string) *int {
	r.streams.mu.Lock()
	defer r.streams.mu.Unlock()
	if stay, ok := r.streams.stay[step]; ok {
		return &stay
	}
	return nil
}
