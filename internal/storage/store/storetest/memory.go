package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Memory is an output in memory. It behaves as differently from a directory as a bucket does: a reader of a replaced object
// gets ErrChanged, a lock is a lease that can be lost, a released lock leaves no name, and there are no directories.
type Memory struct {
	// Fault is called before every method of store.Store; if it returns an error, the call fails with it. It must be set before
	// the first call.
	Fault func(call, name string) error

	mu      sync.Mutex
	objects map[string]*object
	leases  map[string]*heldLock
	pieces  map[*pendingObject]bool // unpublished objects
	lie     Lie                     // the current lie
}

// object is one content; another content is another object.
type object struct{ data []byte }

// info describes the object under its name.
func (o *object) info(name string) store.Info {
	return store.Info{Name: name, Size: int64(len(o.data)), Mark: fmt.Sprintf("%p", o)}
}

// heldLock is a held lock. It is lost when another lock takes its name.
type heldLock struct {
	name  string
	owner store.Owner
	over  bool // it may be taken over
}

// pendingObject is an object that is not published yet.
type pendingObject struct {
	by    *Handle
	scope string // name of the lock that its writer held
}

// NewMemory returns an empty output.
func NewMemory() *Memory {
	return &Memory{objects: map[string]*object{}, leases: map[string]*heldLock{}, pieces: map[*pendingObject]bool{}}
}

// Open opens another store on the output.
func (m *Memory) Open(context.Context, string) (store.Store, error) { return &Handle{memory: m}, nil }

// Existing is Open; it returns fs.ErrNotExist if nothing was ever put.
func (m *Memory) Existing(ctx context.Context, url string) (store.Store, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.objects) == 0 {
		return nil, fmt.Errorf("open output %s: %w", url, fs.ErrNotExist)
	}
	return m.Open(ctx, url)
}

// Output returns the output for storetest.Run.
func (m *Memory) Output() Output {
	return Output{
		Open:   func(ctx context.Context) (store.Store, error) { return m.Open(ctx, "") },
		Die:    func(s store.Store) { s.(*Handle).Die() },
		Leases: true,
		Temps: func() (int, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.pieces), nil
		},
		Tell: func(lie Lie) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lie = lie
		},
	}
}

// Handle is a store on a Memory.
type Handle struct {
	memory *Memory
	lease  *heldLock // guarded by memory.mu
}

var _ store.Store = (*Handle)(nil)

// Die makes the store lose its lock as if its process were dead. The store can still be used, like a process that was paused.
func (h *Handle) Die() {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	if h.lease != nil {
		h.lease.over = true
	}
}

// URL implements store.Store.
func (h *Handle) URL() string { return "memory://output" }

// lies returns an error if the current lie concerns the name of an object.
func (h *Handle) lies(about, name string) error {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	_, there := h.memory.objects[name]
	told := h.memory.lie == EndlessPages && about == "list" || h.memory.lie == OtherTags && about != "list" && there ||
		h.memory.lie == RefusesNew && about == "write" && !there
	if !told {
		return nil
	}
	return fault.TryAgain(fmt.Errorf("%s %s: %s", about, name, h.memory.lie))
}

// checkCall checks the arguments of a call.
func (h *Handle) checkCall(ctx context.Context, call string, names ...string) error {
	for _, name := range names {
		if err := store.CheckName(name); err != nil {
			return err
		}
		if err := h.fault(call, name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %q: %w", call, names, err)
	}
	return nil
}

func (h *Handle) fault(call, name string) error {
	if h.memory.Fault == nil {
		return nil
	}
	return h.memory.Fault(call, name)
}

// mine returns ErrLost if another store has taken over the lock. memory.mu is held.
func (h *Handle) mine() error {
	if h.lease != nil && h.memory.leases[h.lease.name] != h.lease {
		return fault.TryAgain(fmt.Errorf("write to %s: %w", h.URL(), store.ErrLost))
	}
	return nil
}

// upload starts an object. publish or discard ends it.
func (h *Handle) upload() *pendingObject {
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	p := &pendingObject{by: h}
	if h.lease != nil {
		p.scope = h.lease.name
	}
	h.memory.pieces[p] = true
	return p
}

// publish calls set, which gives the object its name, unless the object or the lock is gone.
func (p *pendingObject) publish(set func(objects map[string]*object) error) error {
	m := p.by.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := p.by.mine(); err != nil {
		return err
	}
	if !m.pieces[p] {
		return fault.TryAgain(fmt.Errorf("write to %s: another run has removed what was not published", p.by.URL()))
	}
	return set(m.objects)
}

func (p *pendingObject) discard() {
	p.by.memory.mu.Lock()
	defer p.by.memory.mu.Unlock()
	delete(p.by.memory.pieces, p)
}

// Put implements store.Store.
func (h *Handle) Put(ctx context.Context, objects ...store.Object) error {
	for _, o := range objects {
		if err := h.checkCall(ctx, "Put", o.Name); err != nil {
			return err
		}
	}
	var conflicts []error
	for _, o := range objects {
		err := h.put(ctx, o)
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
		conflicts = append(conflicts, err)
	}
	return errors.Join(conflicts...)
}

func (h *Handle) put(ctx context.Context, o store.Object) error {
	if err := h.lies("write", o.Name); err != nil {
		return err
	}
	p := h.upload()
	defer p.discard()
	fault.Point(fault.StorePutTempWritten)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish %s: %w", o.Name, err)
	}
	err := p.publish(func(objects map[string]*object) error {
		if there := objects[o.Name]; there != nil {
			conflict, err := store.Compare(objectReader{nil, o.Name, there}, o)
			if conflict != nil {
				return conflict
			}
			return err
		}
		objects[o.Name] = &object{bytes.Clone(o.Data)}
		return nil
	})
	fault.Point(fault.StorePutRenamed)
	return err
}

// Replace implements store.Store.
func (h *Handle) Replace(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := h.checkCall(ctx, "Replace", name); err != nil {
		return err
	}
	if err := h.lies("write", name); err != nil {
		return err
	}
	p := h.upload()
	defer p.discard()
	fault.Point(fault.StoreReplaceTempCreated)
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	fault.Point(fault.StoreReplaceTempWritten)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	err := p.publish(func(objects map[string]*object) error {
		objects[name] = &object{content.Bytes()}
		return nil
	})
	fault.Point(fault.StoreReplaceRenamed)
	return err
}

// objectReader reads an object while its name refers to it.
type objectReader struct {
	memory *Memory // nil: forever
	name   string
	object *object
}

// Size implements store.Reader.
func (r objectReader) Size() int64 { return int64(len(r.object.data)) }

// Close implements store.Reader.
func (r objectReader) Close() error { return nil }

// ReadAt implements store.Reader.
func (r objectReader) ReadAt(b []byte, offset int64) (int, error) {
	if r.memory != nil {
		r.memory.mu.Lock()
		defer r.memory.mu.Unlock()
		if r.memory.objects[r.name] != r.object {
			return 0, fmt.Errorf("read %s: %w", r.name, store.ErrChanged)
		}
	}
	return bytes.NewReader(r.object.data).ReadAt(b, offset)
}

// Open implements store.Store.
func (h *Handle) Open(ctx context.Context, name string) (store.Reader, error) {
	if err := h.checkCall(ctx, "Open", name); err != nil {
		return nil, err
	}
	if err := h.lies("read", name); err != nil {
		return nil, err
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	o := h.memory.objects[name]
	if o == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return objectReader{h.memory, name, o}, nil
}

// Stat implements store.Store.
func (h *Handle) Stat(ctx context.Context, name string) (store.Info, error) {
	if err := h.checkCall(ctx, "Stat", name); err != nil {
		return store.Info{}, err
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	o := h.memory.objects[name]
	if o == nil {
		return store.Info{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return o.info(name), nil
}

// Sizes implements store.Store.
func (h *Handle) Sizes(context.Context) store.Sizes { return store.ListSizes(h) }

// List implements store.Store.
func (h *Handle) List(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		err := store.CheckPrefix(prefix)
		if err == nil {
			err = errors.Join(h.checkCall(ctx, "List"), h.fault("List", prefix), h.lies("list", prefix))
		}
		if err != nil {
			yield(store.Info{}, err)
			return
		}
		h.memory.mu.Lock()
		objects := maps.Clone(h.memory.objects)
		h.memory.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			rest, found := strings.CutPrefix(name, prefix)
			if !found || depth == store.Flat && strings.Contains(rest, "/") {
				continue
			}
			if !yield(objects[name].info(name), nil) {
				return
			}
		}
	}
}

// Remove implements store.Store.
func (h *Handle) Remove(ctx context.Context, name string) error {
	if err := h.checkCall(ctx, "Remove", name); err != nil {
		return err
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	if err := h.mine(); err != nil {
		return err
	}
	if h.memory.objects[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(h.memory.objects, name)
	return nil
}

// Lock implements store.Store.
func (h *Handle) Lock(ctx context.Context, name, owner string) (release func(), err error) {
	if err := h.checkCall(ctx, "Lock", name); err != nil {
		return nil, err
	}
	if err := h.lies("write", name); err != nil {
		return nil, err
	}
	m := h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.lease != nil {
		return nil, fmt.Errorf("lock %s: this run already holds a lock on %s", name, h.URL())
	}
	if err := h.held(name); err != nil {
		return nil, err
	}
	mine := &heldLock{name: name, owner: store.NewOwner(owner)}
	text, err := json.Marshal(mine.owner)
	if err != nil {
		return nil, err
	}
	m.leases[name], m.objects[name], h.lease = mine, &object{text}, mine
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if h.lease == mine {
			h.lease = nil
		}
		if m.leases[name] == mine {
			delete(m.leases, name)
			delete(m.objects, name)
		}
	}, nil
}

// held is Held while memory.mu is held.
func (h *Handle) held(name string) error {
	l := h.memory.leases[name]
	if l == nil || l.over {
		return nil
	}
	return fault.TryAgain(&store.LockedError{URL: h.URL(), Lock: name, Owner: l.owner})
}

// Held implements store.Store.
func (h *Handle) Held(ctx context.Context, name string) error {
	if err := h.checkCall(ctx, "Held", name); err != nil {
		return err
	}
	if err := h.lies("read", name); err != nil {
		return err
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	return h.held(name)
}

// CleanTemps implements store.Store.
func (h *Handle) CleanTemps(ctx context.Context, free ...string) (removed int, err error) {
	if err := h.checkCall(ctx, "CleanTemps"); err != nil {
		return 0, err
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	if h.lease == nil {
		return 0, errors.New("clean temporary files: the output is not locked by this run")
	}
	if err := h.mine(); err != nil {
		return 0, err
	}
	for p := range h.memory.pieces {
		if p.by != h && (p.scope == h.lease.name || slices.Contains(free, p.scope)) {
			delete(h.memory.pieces, p)
			removed++
		}
	}
	return removed, nil
}

// Close implements store.Store.
func (h *Handle) Close() error { return nil }
