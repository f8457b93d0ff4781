package transforms

import (
	"context"
	"slices"
	"sync"
)

// turns gives out the devices of the pool so that a batch in a late stage goes before one in an early
// stage: what is begun is finished first. So the first results come early, little is in memory, and little
// is lost with the process. A batch that needs several devices waits for them, and nothing of an earlier
// stage passes it.
type turns struct {
	mu      sync.Mutex
	started bool
	free    int
	waiting []*turn // in order of arrival
}

// turn is a batch that waits for devices.
type turn struct {
	stage       int
	least, most int
	granted     chan int
}

// acquire waits until the batch of that stage may lease least to most of size devices, as many as are free
// then; done gives the turn back.
func (t *turns) acquire(ctx context.Context, stage, size, least, most int) (n int, done func(), err error) {
	mine := &turn{stage, min(least, size), min(most, size), make(chan int, 1)}
	t.mu.Lock()
	if !t.started {
		t.started, t.free = true, size
	}
	t.waiting = append(t.waiting, mine)
	t.grant()
	t.mu.Unlock()
	select {
	case n := <-mine.granted:
		return n, func() { t.release(n) }, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.grant() // it may have stood in the way of others
	}
	t.mu.Unlock()
	select {
	case n := <-mine.granted: // at the same moment
		t.release(n)
	default:
	}
	return 0, nil, context.Cause(ctx)
}

// release gives n devices back.
func (t *turns) release(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += n
	t.grant()
}

// grant gives what is free to the waiting batches: of the latest stage first, of those the longest waiting
// one.
func (t *turns) grant() {
	for len(t.waiting) > 0 {
		next := 0
		for i, w := range t.waiting {
			if w.stage > t.waiting[next].stage {
				next = i
			}
		}
		w := t.waiting[next]
		if t.free < w.least {
			return
		}
		n := min(t.free, w.most)
		t.free -= n
		w.granted <- n
		t.waiting = slices.Delete(t.waiting, next, next+1)
	}
}
