package engine

import (
	"log/slog"

	"latentbeam/schemas"
)

// staying is how many blocks of the stage stay in memory, 0 where none can pass.
func (f *Station) staying() int {
	l := f.step.Capabilities().Loading
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
func (f *Station) stream(row *schemas.PromptRow, staying int) bool {
	l := f.step.Capabilities().Loading
	if l == nil || l.Staying == nil {
		return false
	}
	f.engine.learned.mu.Lock() // one at a time
	defer f.engine.learned.mu.Unlock()
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
	slog.Info("weights pass through memory: an element does not fit beside them", "stage", f.step.Name, "stay", stay,
		"of", of)
	l.Stream(stay)
	if f.engine.Freed != nil {
		f.engine.Freed(f.index, *row, stay)
	}
	if f.engine.learned.stay == nil {
		f.engine.learned.stay = map[string]int{}
	}
	f.engine.learned.stay[f.step.Name] = stay
	return true
}

// stays is what other processes are to do likewise, nil for nothing.
func (l *learned) stays(step string) *int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stay, ok := l.stay[step]; ok {
		return &stay
	}
	return nil
}
