package cli

import (
	"io"
	"os"
	"sync"

	"latentbeam/internal/watch/logs"
)

// Log is where records go: stderr, or past the bar that a terminal shows.
var Log = &pastLines{}

// pastLines writes to stderr, or to another writer while there is one.
type pastLines struct {
	mu sync.Mutex
	w  io.Writer
}

// Through lets text go to w; nil: to stderr.
func (p *pastLines) Through(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = w
}

// Write implements io.Writer.
func (p *pastLines) Write(text []byte) (int, error) {
	p.mu.Lock()
	w := p.w
	p.mu.Unlock()
	if w == nil {
		w = os.Stderr
	}
	if _, err := io.WriteString(w, logs.Visible(string(text))); err != nil { // a record is a whole text
		return 0, err
	}
	return len(text), nil
}
