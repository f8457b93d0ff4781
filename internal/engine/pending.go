package engine

import (
	"sync"

	"latentbeam/schemas"
)

// pending holds the keys of rows in flight, so that an equal row is not computed
// twice. Its size is bounded by the rows in flight.
type pending struct {
	sync.Mutex
	keys map[schemas.Key]bool
}

// claim claims the key and returns true, or returns false if the key is claimed already.
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

// reset releases the claims of bundles that never finished.
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
