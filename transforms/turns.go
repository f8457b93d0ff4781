package transforms

import (
	"context"
	"slices"
	"sync"
)

// turns gives out the devices of the pool so that a batch in a late stage goes before one in an early stage:
// what is begun is finished first. So the first results come early, little is in memory, and little is lost
// with the process.
type turns struct {
	mu      sync.Mutex
	started bool
	free    int
	waiting []*turn // in order of arrival
}

// turn is a batch that waits for a device.
type turn struct {
	stage   int
	granted chan struct{}
}

// acquire waits until the batch of that stage may lease one of size devices; done gives the turn back.
func (t *turns) acquire(ctx context.Context, stage, size int) (done func(), err error) {
	t.mu.Lock()
	if !t.started {
		t.started, t.free = true, size
	}
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return t.release, nil
	}
	mine := &turn{stage, make(chan struct{})}
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine.granted:
		return t.release, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, mine)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // granted at the same moment
		t.release()
	}
	return nil, context.Cause(ctx)
}

// release passes the turn to the waiting batch of the latest stage, the longest waiting one of those.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	next := 0
	for i, w := range t.waiting {
		if w.stage > t.waiting[next].stage {
			next = i
		}
	}
	close(t.waiting[next].granted)
	t.waiting = slices.Delete(t.waiting, next, next+1)
}
