package pipelines

import (
	"context"
	"errors"
	"io/fs"

	"latentbeam/internal/storage/store"
)

// Peek opens an output that is already there, only to read it; without one there is nothing done yet.
func (j *Job) Peek(ctx context.Context) error {
	return j.again(func() error { return j.peek(ctx) })
}

func (j *Job) peek(ctx context.Context) error {
	s, err := j.openOutput(ctx, j.Opts.outputs.read)
	if errors.Is(err, fs.ErrNotExist) {
		j.engine.Store, j.engine.Ledger = nil, nil // of an output that was there before
		return nil
	}
	if err != nil {
		return err
	}
	j.peeking = true
	return j.use(ctx, s, false)
}

// maxLooks bounds how often an output is read anew that somebody else changes meanwhile.
const maxLooks = 5

// again retries the read when a finishing run has removed a file meanwhile. A reader holds no lock.
func (j *Job) again(read func() error) (err error) {
	for range maxLooks {
		if err = read(); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrChanged) {
			return err
		}
		j.detach()
	}
	return err
}
