package terminal

import (
	"io"
	"os"
	"sync"
)

// Log is where records go: stderr, or past the bar that a terminal shows.
var Log = &Past{}

// Past writes to stderr, or to another writer while there is one.
type Past struct {
	mu sync.Mutex
	w  io.Writer
}

// Through lets text go to w; nil: to stderr.
func (p *Past) Through(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = w
}

// Write implements io.Writer.
func (p *Past) Write(text []byte) (int, error) {
	p.mu.Lock()
	w := p.w
	p.mu.Unlock()
	if w == nil {
		w = os.Stderr
	}
	return w.Write(text)
}
