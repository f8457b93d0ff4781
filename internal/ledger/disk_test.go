package ledger

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"path"
	"slices"

	"latentbeam/internal/store/dir"
)

// disk is a file system that can lose power: each file knows which of its bytes are synced, each
// directory which of its entries. It is built from the calls that store reports.
type disk struct{ root *node }

type node struct {
	live, synced []byte           // of a file
	now, safe    map[string]*node // of a directory
}

func newDir() *node { return &node{now: map[string]*node{}, safe: map[string]*node{}} }

func (d *disk) find(name string) *node {
	if name == "." {
		return d.root
	}
	return d.find(path.Dir(name)).now[path.Base(name)]
}

// do applies one call.
func (d *disk) do(c dir.Call) {
	parent, base := d.find(path.Dir(c.Name)), path.Base(c.Name)
	switch c.Op {
	case dir.OpMkdir:
		parent.now[base] = newDir()
	case dir.OpCreate:
		parent.now[base] = &node{}
	case dir.OpWrite:
		f := parent.now[base]
		f.live = append(f.live, c.Data...)
	case dir.OpSync:
		f := parent.now[base]
		f.synced = f.live
	case dir.OpRename, dir.OpReplace:
		d.find(path.Dir(c.To)).now[path.Base(c.To)] = parent.now[base]
		delete(parent.now, base)
	case dir.OpRemove:
		delete(parent.now, base)
	case dir.OpSyncDir:
		dir := d.find(c.Name)
		dir.safe = maps.Clone(dir.now)
	}
}

// survival says what of the unsynced changes is on disk after a power cut.
type survival func() (survives bool, fraction float64)

func none() (bool, float64) { return false, 0 }
func all() (bool, float64)  { return true, 1 }

func coins(seed uint64) survival {
	rng := rand.New(rand.NewPCG(seed, 0))
	return func() (bool, float64) { return rng.IntN(2) == 0, rng.Float64() }
}

// reboot returns the files that a power cut leaves: name -> content.
func (d *disk) reboot(survive survival) map[string][]byte {
	files := map[string][]byte{}
	var walk func(dir *node, at string)
	walk = func(dir *node, at string) {
		entries := maps.Clone(dir.safe)
		maps.Copy(entries, dir.now)
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			n := dir.safe[name]
			if now := dir.now[name]; now != n {
				if ok, _ := survive(); ok {
					n = now
				}
			}
			switch {
			case n == nil:
			case n.now != nil:
				walk(n, path.Join(at, name))
			default:
				_, fraction := survive()
				keep := len(n.synced) + int(fraction*float64(len(n.live)-len(n.synced)))
				files[path.Join(at, name)] = n.live[:keep]
			}
		}
	}
	walk(d.root, ".")
	return files
}

// history is what a worker did: its calls, and after how many of them each element was safe.
type history struct {
	calls []dir.Call
	acked map[int]int
}

// watch makes d write a history.
func watch(d *dir.Dir) *history {
	h := &history{acked: map[int]int{}}
	d.SetTrace(func(c dir.Call) error {
		c.Data = bytes.Clone(c.Data)
		h.calls = append(h.calls, c)
		return nil
	})
	return h
}

func (h *history) ack(i int) { h.acked[i] = len(h.calls) }

// without is the history with some calls left out, as if the code forgot them.
func (h *history) without(forgotten func(dir.Call) bool) *history {
	out := &history{acked: map[int]int{}}
	place := make([]int, len(h.calls)+1)
	for i, c := range h.calls {
		if !forgotten(c) {
			out.calls = append(out.calls, c)
		}
		place[i+1] = len(out.calls)
	}
	for i, at := range h.acked {
		out.acked[i] = place[at]
	}
	return out
}
