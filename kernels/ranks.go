package kernels

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// PanicError is a panic of one rank.
type PanicError struct {
	Rank  int
	Value any
	Stack []byte
}

// Error names the rank and the value, not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("rank %d: panic: %v", e.Rank, e.Value) }

// LostError is the error of a group in which some ranks did not stop after it had failed. Their devices must not be used again:
// the ranks' goroutines may still be working on them.
type LostError struct {
	Ranks []int
	Cause error
}

// Error names the ranks and the cause.
func (e *LostError) Error() string {
	return fmt.Sprintf("ranks %v do not answer: %v", e.Ranks, e.Cause)
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// RunRanks runs f for every transport, each on its own goroutine, and returns when all have ended. It returns the first error
// or panic, which also aborts the group and cancels the context of the other ranks, so that they end too. It waits for them for
// grace; ranks that run longer are listed in a LostError.
func RunRanks(ctx context.Context, ranks []Transport, grace time.Duration,
	f func(ctx context.Context, i int, tr Transport) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &rankRun{failed: make(chan struct{}), running: map[int]bool{}}
	for _, tr := range ranks {
		t.running[tr.Rank()] = true
	}
	var all sync.WaitGroup
	for i, tr := range ranks {
		all.Go(func() {
			err := runRank(ctx, i, tr, f)
			if t.finish(tr.Rank(), err) {
				cancel(err)
				for _, other := range ranks {
					other.Abort(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return t.result()
	case <-t.failed:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		for _, tr := range ranks {
			tr.Abort(cause)
		}
	}
	select {
	case <-ended:
	case <-time.After(grace):
	}
	return t.result()
}

// rankRun is the state that the ranks of one call share.
type rankRun struct {
	mu      sync.Mutex
	running map[int]bool
	first   error
	failed  chan struct{} // closed with the first error
}

// finish records that a rank has ended and reports whether its error is the first.
func (t *rankRun) finish(rank int, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, rank)
	if err == nil || t.first != nil {
		return false
	}
	t.first = err
	close(t.failed)
	return true
}

// result returns the first error and the ranks that are still running.
func (t *rankRun) result() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.running) == 0 {
		return t.first
	}
	lost := &LostError{Ranks: slices.Sorted(maps.Keys(t.running)), Cause: t.first}
	if lost.Cause == nil {
		lost.Cause = context.Canceled
	}
	return lost
}

func runRank(ctx context.Context, i int, tr Transport,
	f func(ctx context.Context, i int, tr Transport) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Rank: tr.Rank(), Value: v, Stack: debug.Stack()}
		}
	}()
	return f(ctx, i, tr)
}
