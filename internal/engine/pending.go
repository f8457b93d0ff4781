package engine

import (
	"sync"

	"latentbeam/schemas"
)

// pending holds the keys that are on their way, so that a row equal to one in flight is not computed
// twice. It is as small as what is in flight.
type pending struct {
	sync.Mutex
	keys map[schemas.Key]bool
}

// claim reports whether the key was free, and takes it.
func (p *pending) claim(k schemas.Key) bool {
	p.Lock()
	defer p.Unlock()
	if p.keys[k] {
		return false
	}
	if p.keys == nil {
		p.keys = map[schemas.Key]bool{}
	}
	p.keys[k] = true
	return true
}

// reset forgets the claims of bundles that never came to an end.
func (p *pending) reset() {
	p.Lock()
	defer p.Unlock()
	p.keys = nil
}

func (p *pending) release(keys ...schemas.Key) {
	p.Lock()
	defer p.Unlock()
	for _, k := range keys {
		delete(p.keys, k)
	}
}
