package weights

import (
	"fmt"
	"math"
	"slices"
)

// Store is a memory that weights can lie in.
type Store struct {
	Name  string // "0", "1" ... for GPUs, "cpu", "disk"
	Bytes int64  // what the weights may take of it
	GPU   bool
}

// Disk is the store that takes everything that is left.
var Disk = Store{Name: "disk", Bytes: math.MaxInt64}

// Rules are what a model says about its placement.
type Rules struct {
	// Whole names the class of a module that must stay on one device, such as T5Block; "" for others.
	Whole func(path string) string
	// Tied are groups of tensors that share one memory: all but one have 0 bytes.
	Tied [][]string
}

// whole reports whether m cannot be taken apart: its class says so, or it holds nothing but tensors.
func (r Rules) whole(m *Module) bool { return !m.inner() || r.class(m) != "" }

func (r Rules) class(m *Module) string {
	if r.Whole == nil || m.tensor {
		return ""
	}
	return r.Whole(m.Path)
}

// Balanced lowers the stores of GPUs so that Place spreads a model over all of them, as accelerate's
// get_balanced_memory does: each gets an equal part and a buffer of a block and a quarter; the last keeps
// what it has, in case that does not suffice. lowZero leaves GPU 0 as empty as can be.
func Balanced(m *Module, stores []Store, rules Rules, lowZero bool) []Store {
	out := append([]Store(nil), stores...)
	var gpus []int
	for i, s := range out {
		if s.GPU && s.Bytes > 0 {
			gpus = append(gpus, i)
		}
	}
	if len(gpus) == 0 {
		return out
	}
	parts := int64(len(gpus))
	if lowZero = lowZero && parts > 1; lowZero {
		parts--
	}
	each := m.Bytes/parts + m.buffer(rules)
	rest := m.Bytes
	for n, i := range gpus {
		if n < len(gpus)-1 && !(lowZero && n == 0) {
			out[i].Bytes = min(out[i].Bytes, each)
		}
		if n > 0 {
			rest -= out[i].Bytes
		}
	}
	if lowZero {
		out[gpus[0]].Bytes = min(out[gpus[0]].Bytes, max(0, rest))
	}
	return out
}

// buffer is what a GPU gets beyond its equal part: 1.25 times the larger of the largest whole class (its
// first module) and the mean of the modules that hold tensors only.
func (m *Module) buffer(rules Rules) int64 {
	first := map[string]int64{}
	var largest int64
	var visit func(*Module)
	visit = func(m *Module) {
		if class := rules.class(m); class != "" {
			if _, seen := first[class]; !seen {
				first[class] = m.Bytes
				largest = max(largest, m.Bytes)
			}
		}
		for _, c := range m.Children {
			visit(c)
		}
	}
	visit(m)
	last := m.lastLevel(nil)
	var sum int64
	for _, l := range last {
		sum += l.Bytes
	}
	mean := sum / int64(max(1, len(last)))
	return int64(1.25 * float64(max(largest, mean)))
}

// Placed says that a module, with all below it, lies in a store.
type Placed struct {
	Module string // "" for the whole model
	Store  string
	Bytes  int64
}

// Place puts modules into stores in order, as accelerate's infer_auto_device_map does: what fits goes to the
// present store, what does not is taken apart, and what cannot be taken apart opens the next store. The first
// GPU and the CPU keep room for the largest module that is not placed yet, so that what lies in slower stores
// can be brought in. At the end modules whose parts all share a store are named as one.
func Place(m *Module, stores []Store, rules Rules) ([]Placed, error) {
	p := placer{rules: rules, queue: slices.Clone(m.Children), stores: slices.Clone(stores)}
	if len(stores) == 0 || stores[len(stores)-1].Name != Disk.Name {
		p.stores = append(p.stores, Disk)
	}
	p.measure()
	for len(p.queue) > 0 {
		if err := p.step(); err != nil {
			return nil, err
		}
	}
	return p.merge(m), nil
}

// placer is the state of one Place.
type placer struct {
	rules   Rules
	stores  []Store
	at      int   // present store
	used    int64 // of it
	queue   []*Module
	largest int64            // the largest module that cannot be taken apart and is not placed yet
	owners  map[*Module]bool // the modules of that size
	done    map[string]int   // path -> store
}

// step looks at the next module: places it, takes something apart, or opens the next store.
func (p *placer) step() error {
	m := p.queue[0]
	p.queue = p.queue[1:]
	if p.forget(m); len(p.owners) == 0 {
		p.measure()
	}
	store, room := p.stores[p.at], p.stores[p.at].Bytes
	if p.main(p.at) {
		room -= p.largest
	}
	tied := p.tied(m)
	size := m.Bytes
	for _, t := range tied {
		size += t.Bytes
	}
	if store.Name == Disk.Name || p.used+size <= room {
		p.put(m, tied, size)
		return nil
	}
	if len(tied) > 0 && p.used+m.Bytes <= room {
		for _, t := range tied {
			if !p.rules.whole(t) {
				p.split(t)
				p.queue = append([]*Module{m}, p.queue...)
				return nil
			}
		}
	}
	if p.used+m.Bytes >= room && !p.rules.whole(m) {
		p.queue = append(append([]*Module(nil), m.Children...), p.queue...)
		p.measure()
		return nil
	}
	if p.at++; p.at >= len(p.stores) {
		return fmt.Errorf("place weights: %q does not fit and there is no disk behind %s", m.Path, store.Name)
	}
	p.used = 0
	p.queue = append([]*Module{m}, p.queue...)
	return nil
}

// main reports whether a store keeps room for modules that are brought in: the first GPU and the CPU.
func (p *placer) main(at int) bool {
	if p.stores[at].Name == "cpu" {
		return true
	}
	for i, s := range p.stores {
		if s.GPU {
			return i == at
		}
	}
	return false
}

// tied returns the queued modules that hold a tensor which shares memory with one of m.
func (p *placer) tied(m *Module) (out []*Module) {
	for _, group := range p.rules.Tied {
		inside := 0
		for _, path := range group {
			if m.in(path) {
				inside++
			}
		}
		if inside == 0 || inside == len(group) {
			continue
		}
		for _, path := range group {
			for _, q := range p.queue {
				if !m.in(path) && q.in(path) {
					out = append(out, q)
				}
			}
		}
	}
	return out
}

func (p *placer) put(m *Module, tied []*Module, size int64) {
	if p.done == nil {
		p.done = map[string]int{}
	}
	p.used += size
	p.done[m.Path] = p.at
	for _, t := range tied {
		p.done[t.Path] = p.at
		for i, q := range p.queue {
			if q == t {
				p.queue = append(p.queue[:i:i], p.queue[i+1:]...)
				break
			}
		}
	}
}

// split replaces a queued module by its parts.
func (p *placer) split(m *Module) {
	for i, q := range p.queue {
		if q == m {
			p.queue = append(append(p.queue[:i:i], m.Children...), p.queue[i+1:]...)
			break
		}
	}
	p.measure()
}

// measure finds the largest queued module that cannot be taken apart.
func (p *placer) measure() {
	p.largest, p.owners = 0, map[*Module]bool{}
	var visit func(*Module)
	visit = func(m *Module) {
		if m.tensor {
			return
		}
		if !p.rules.whole(m) {
			for _, c := range m.Children {
				visit(c)
			}
			return
		}
		if m.Bytes > p.largest {
			p.largest, p.owners = m.Bytes, map[*Module]bool{}
		}
		if m.Bytes == p.largest {
			p.owners[m] = true
		}
	}
	for _, m := range p.queue {
		visit(m)
	}
}

// forget takes m, and what lies in it, out of the largest ones.
func (p *placer) forget(m *Module) {
	for o := range p.owners {
		if m.in(o.Path) {
			delete(p.owners, o)
		}
	}
}

// merge names a module whose parts share a store as one.
func (p *placer) merge(m *Module) []Placed {
	if at, ok := p.done[m.Path]; ok {
		return []Placed{{m.Path, p.stores[at].Name, m.Bytes}}
	}
	var out []Placed
	for _, c := range m.Children {
		out = append(out, p.merge(c)...)
	}
	for _, c := range out {
		if c.Store != out[0].Store {
			return out
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []Placed{{m.Path, out[0].Store, m.Bytes}}
}
