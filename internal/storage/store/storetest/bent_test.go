package storetest

import (
	"context"
	"io"
	"iter"

	"latentbeam/internal/storage/store"
)

// bent is a store of which some methods are wrong; nil is right. The right store is given to them.
type bent struct {
	*Handle
	address  func() string
	put      func(ctx context.Context, objects []store.Object) error
	replace  func(ctx context.Context, name string, write func(io.Writer) error) error
	open     func(ctx context.Context, name string) (store.Reader, error)
	stat     func(ctx context.Context, name string) (store.Info, error)
	sizes    func(ctx context.Context) store.Sizes
	list     func(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error]
	remove   func(ctx context.Context, name string) error
	lock     func(ctx context.Context, name, owner string) (func(), error)
	held     func(ctx context.Context, name string) error
	clean    func(ctx context.Context, free []string) (int, error)
	immortal bool // its lock outlives it
}

func (b *bent) URL() string {
	if b.address != nil {
		return b.address()
	}
	return b.Handle.URL()
}

func (b *bent) Put(ctx context.Context, objects ...store.Object) error {
	if b.put != nil {
		return b.put(ctx, objects)
	}
	return b.Handle.Put(ctx, objects...)
}

func (b *bent) Replace(ctx context.Context, name string, write func(io.Writer) error) error {
	if b.replace != nil {
		return b.replace(ctx, name, write)
	}
	return b.Handle.Replace(ctx, name, write)
}

func (b *bent) Open(ctx context.Context, name string) (store.Reader, error) {
	if b.open != nil {
		return b.open(ctx, name)
	}
	return b.Handle.Open(ctx, name)
}

func (b *bent) Stat(ctx context.Context, name string) (store.Info, error) {
	if b.stat != nil {
		return b.stat(ctx, name)
	}
	return b.Handle.Stat(ctx, name)
}

func (b *bent) Sizes(ctx context.Context) store.Sizes {
	if b.sizes != nil {
		return b.sizes(ctx)
	}
	return store.ListSizes(b)
}

func (b *bent) List(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
	if b.list != nil {
		return b.list(ctx, prefix, depth)
	}
	return b.Handle.List(ctx, prefix, depth)
}

func (b *bent) Remove(ctx context.Context, name string) error {
	if b.remove != nil {
		return b.remove(ctx, name)
	}
	return b.Handle.Remove(ctx, name)
}

func (b *bent) Lock(ctx context.Context, name, owner string) (func(), error) {
	if b.lock != nil {
		return b.lock(ctx, name, owner)
	}
	return b.Handle.Lock(ctx, name, owner)
}

func (b *bent) Held(ctx context.Context, name string) error {
	if b.held != nil {
		return b.held(ctx, name)
	}
	return b.Handle.Held(ctx, name)
}

func (b *bent) CleanTemps(ctx context.Context, free ...string) (int, error) {
	if b.clean != nil {
		return b.clean(ctx, free)
	}
	return b.Handle.CleanTemps(ctx, free...)
}
