// Package dirtest simulates a file system that can lose power, for tests of the writes to a directory.
//
// It does not know the layout of an output. To change how a call survives, edit Do.
package dirtest

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"

	"latentbeam/internal/storage/store/dir"
)

// Disk is a simulated file system that can lose power: each file knows which of its bytes are synced, each directory which of
// its entries. It is driven by the calls that a dir.Dir reports (SetTrace). It is not safe for concurrent use.
type Disk struct{ root *node }

type node struct {
	live, synced []byte           // of a file
	now, safe    map[string]*node // of a directory
}

func newDir() *node { return &node{now: map[string]*node{}, safe: map[string]*node{}} }

// New returns a disk with only the given files (name -> content), which are synced.
func New(files map[string][]byte) *Disk {
	d := &Disk{newDir()}
	for name, data := range files {
		n := d.root
		for _, part := range parts(path.Dir(name)) {
			if n.now[part] == nil {
				n.now[part] = newDir()
				n.safe[part] = n.now[part]
			}
			n = n.now[part]
		}
		f := &node{live: data, synced: data}
		n.now[path.Base(name)], n.safe[path.Base(name)] = f, f
	}
	return d
}

// parts returns the names of the directories on the path to dir.
func parts(dir string) []string {
	if dir == "." {
		return nil
	}
	return append(parts(path.Dir(dir)), path.Base(dir))
}

func (d *Disk) find(name string) *node {
	if name == "." {
		return d.root
	}
	parent := d.find(path.Dir(name))
	if parent == nil {
		return nil
	}
	return parent.now[path.Base(name)]
}

// Do applies one call. A call that the system would refuse, because a name is missing or taken, changes nothing.
func (d *Disk) Do(c dir.Call) {
	if c.Op == dir.OpSyncDir {
		if n := d.find(c.Name); n != nil {
			n.safe = maps.Clone(n.now)
		}
		return
	}
	parent, base := d.find(path.Dir(c.Name)), path.Base(c.Name)
	if parent == nil {
		return
	}
	n := parent.now[base]
	switch {
	case c.Op == dir.OpMkdir && n == nil:
		parent.now[base] = newDir()
	case c.Op == dir.OpCreate:
		parent.now[base] = &node{}
	case n == nil:
		return
	}
	switch c.Op {
	case dir.OpWrite:
		n.live = append(n.live, c.Data...)
	case dir.OpSync:
		n.synced = n.live
	case dir.OpRename, dir.OpReplace:
		to := d.find(path.Dir(c.To))
		if to == nil || to.now[path.Base(c.To)] != nil && c.Op == dir.OpRename {
			return
		}
		to.now[path.Base(c.To)] = n
		delete(parent.now, base)
	case dir.OpRemove:
		delete(parent.now, base)
	}
}

// Survival decides whether an unsynced change survives a power cut, and which fraction of unsynced bytes.
type Survival func() (survives bool, fraction float64)

// None lets no unsynced change survive.
func None() (bool, float64) { return false, 0 }

// All lets every change survive.
func All() (bool, float64) { return true, 1 }

// Coins decides at random.
func Coins(seed uint64) Survival {
	rng := rand.New(rand.NewPCG(seed, 0))
	return func() (bool, float64) { return rng.IntN(2) == 0, rng.Float64() }
}

// Reboot returns the files after a power cut: name -> content.
func (d *Disk) Reboot(survive Survival) map[string][]byte {
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
