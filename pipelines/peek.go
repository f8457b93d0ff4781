package pipelines

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Peek opens an output that is already there, only to read it; without one there is nothing done yet.
func (j *Job) Peek(ctx context.Context) error {
	if _, err := os.Stat(j.Config.Output.Path); err != nil {
		return nil
	}
	return j.again(func() error { return j.peek(ctx) })
}

func (j *Job) peek(ctx context.Context) error {
	dir, err := j.openOutput()
	if err != nil {
		return err
	}
	j.peeking = true
	return j.use(ctx, dir)
}

// maxLooks bounds how often an output is read anew that somebody else changes meanwhile.
const maxLooks = 5

// again reads the output, anew where a run that ends there has removed what was to be read: who only reads has no lock
// that would keep it from that.
func (j *Job) again(read func() error) (err error) {
	for range maxLooks {
		if err = read(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		j.detach()
	}
	return err
}
