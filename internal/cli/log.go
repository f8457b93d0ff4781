package cli

import (
	"io"
	"os"
	"sync"

	"latentbeam/internal/watch/logs"
)

// Log receives log records and writes them to stderr. While a progress bar is shown, they are printed above the bar.
var Log = &logWriter{}

// logWriter writes to stderr, or to the writer that SetWriter sets.
type logWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// SetWriter sends the following text to w; nil means stderr.
func (p *logWriter) SetWriter(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = w
}

// Write implements io.Writer.
func (p *logWriter) Write(text []byte) (int, error) {
	p.mu.Lock()
	w := p.w
	p.mu.Unlock()
	if w == nil {
		w = os.Stderr
	}
	if _, err := io.WriteString(w, logs.Visible(string(text))); err != nil { // each Write is one record, so no character is split
		return 0, err
	}
	return len(text), nil
}
