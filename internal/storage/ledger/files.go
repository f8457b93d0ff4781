package ledger

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"latentbeam/internal/storage/store"
)

// openFilesMax limits the segments that are open for reading.
const openFilesMax = 64

// files caches the most recently read segments as open files.
type files struct {
	store store.Store
	ctx   context.Context // for opening; cancelled by close
	end   context.CancelFunc
	mu    sync.Mutex
	open  map[string]*list.Element // of *handle, most recent first
	ages  list.List
}

// handle is an open segment. It is closed when it is no longer cached and not in use.
type handle struct {
	name  string
	file  store.Reader
	users int
	old   bool
}

// newFiles uses the values of ctx; the files stay open after it is cancelled.
func newFiles(ctx context.Context, s store.Store) *files {
	f := &files{store: s, open: map[string]*list.Element{}}
	f.ctx, f.end = context.WithCancel(context.WithoutCancel(ctx))
	return f
}

// use calls fn with a reader of the named segment.
func (f *files) use(name string, fn func(store.Reader) error) error {
	h, err := f.acquire(name)
	if err != nil {
		return fmt.Errorf("open ledger segment %s: %w", name, err)
	}
	defer f.release(h)
	return fn(h.file)
}

func (f *files) acquire(name string) (*handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.open[name]; e != nil {
		f.ages.MoveToFront(e)
		h := e.Value.(*handle)
		h.users++
		return h, nil
	}
	file, err := f.store.Open(f.ctx, name)
	if err != nil {
		return nil, err
	}
	h := &handle{name: name, file: file, users: 1}
	f.open[name] = f.ages.PushFront(h)
	if f.ages.Len() > openFilesMax {
		f.retire(f.ages.Back())
	}
	return h, nil
}

func (f *files) release(h *handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.users--; h.users == 0 && h.old {
		h.file.Close()
	}
}

// retire removes a handle from the cache. The caller holds the lock.
func (f *files) retire(e *list.Element) {
	h := f.ages.Remove(e).(*handle)
	delete(f.open, h.name)
	h.old = true
	if h.users == 0 {
		h.file.Close()
	}
}

// discard closes a segment that will be removed.
func (f *files) discard(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.open[name]; e != nil {
		f.retire(e)
	}
}

// close retires all handles.
func (f *files) close() {
	f.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.ages.Len() > 0 {
		f.retire(f.ages.Back())
	}
}
