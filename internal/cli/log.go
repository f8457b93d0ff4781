package cli

import (
	"io"
	"os"
	"sync"
)

// logWriter is where records go: stderr, or past the bar that a terminal shows.
var logWriter = &past{}

// past writes to stderr, or to another writer while there is one.
type past struct {
	mu sync.Mutex
	w  io.Writer
}

// through lets text go to w; nil: to stderr.
func (p *past) through(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = w
}

// Write implements io.Writer.
func (p *past) Write(text []byte) (int, error) {
	p.mu.Lock()
	w := p.w
	p.mu.Unlock()
	if w == nil {
		w = os.Stderr
	}
	return w.Write(text)
}
