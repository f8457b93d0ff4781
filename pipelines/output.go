package pipelines

import (
	"context"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
)

// outputs says how the store of an output is opened.
type outputs struct {
	output   func(ctx context.Context, url string) (store.Store, error) // to write; it creates what is missing
	unsafe   bool                                                       // also in a bucket that breaks its promises
	existing func(ctx context.Context, url string) (store.Store, error) // only to read; fs.ErrNotExist where there is none
}

// write opens an output to write it.
func (o outputs) write(ctx context.Context, url string) (store.Store, error) {
	if o.output != nil {
		return o.output(ctx, url)
	}
	if o.unsafe {
		return open.Unsafe(ctx, url)
	}
	return open.Output(ctx, url)
}

// read opens an output only to read it; where there is none, it answers fs.ErrNotExist.
func (o outputs) read(ctx context.Context, url string) (store.Store, error) {
	if o.existing != nil {
		return o.existing(ctx, url)
	}
	return open.Existing(ctx, url)
}

// readFile reads a whole object of an output that is there.
func (o outputs) readFile(ctx context.Context, url, name string) ([]byte, error) {
	s, err := o.read(ctx, url)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return store.ReadFile(ctx, s, name)
}
