package transforms

import (
	"crypto/sha256"
	"errors"
	"sync"

	"latentbeam/internal/engine"
)

// registry holds the engines of this process by the hash of their specification.
var registry struct {
	sync.Mutex
	engines map[[32]byte]*engine.Engine
}

// Register makes e the engine of spec in this process, where the transforms of that specification find it;
// forget ends that.
func Register(spec []byte, e *engine.Engine) (forget func()) {
	id := sha256.Sum256(spec)
	registry.Lock()
	defer registry.Unlock()
	if registry.engines == nil {
		registry.engines = map[[32]byte]*engine.Engine{}
	}
	registry.engines[id] = e
	return func() {
		registry.Lock()
		defer registry.Unlock()
		delete(registry.engines, id)
	}
}

// engineOf returns the engine of spec.
func engineOf(spec []byte) (*engine.Engine, error) {
	registry.Lock()
	defer registry.Unlock()
	if e := registry.engines[sha256.Sum256(spec)]; e != nil {
		return e, nil
	}
	return nil, errors.New("find engine: this process has not opened the job, and workers of other processes " +
		"are not there yet: use runner local or prism")
}
