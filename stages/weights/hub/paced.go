package hub

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// minBytes is the number of bytes that must arrive within a client's idle time: 1 KiB a second. A slower server is abandoned,
// because a download at one byte a second would never end.
const minBytes = 60 << 10

// paced is the body of an answer that must make progress.
type paced struct {
	body  io.Reader
	idle  time.Duration
	timer *time.Timer
	left  atomic.Bool
	fresh int64 // bytes since the timer was set
	total int64
}

// newPaced watches a body until stop is called. If it makes no progress it calls leave, which ends the request.
func newPaced(body io.Reader, idle time.Duration, leave func()) *paced {
	p := &paced{body: body, idle: idle}
	p.timer = time.AfterFunc(idle, func() { p.left.Store(true); leave() })
	return p
}

func (p *paced) stop() { p.timer.Stop() }

// Read implements io.Reader. An error that is not io.EOF is a cut.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	p.fresh += int64(n)
	p.total += int64(n)
	if p.fresh >= minBytes {
		p.fresh = 0
		p.timer.Reset(p.idle)
	}
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case p.left.Load():
		return n, brokenConnection{fmt.Errorf("only %d bytes came within %v, after %d bytes", p.fresh, p.idle, p.total-p.fresh)}
	}
	return n, brokenConnection{fmt.Errorf("the connection broke after %d bytes: %w", p.total, err)}
}
