package transforms

import (
	"crypto/sha256"
	"errors"
	"sync"

	"latentbeam/internal/engine"
	"latentbeam/schemas/fault"
)

// registry holds the engines of this process by the hash of their specification, and the function that opens new ones.
var registry struct {
	sync.Mutex
	engines map[[32]byte]*engine.Engine
	open    func(spec []byte) (*engine.Engine, error) // nil: this process is no worker
}

// Register registers e as the engine of spec in this process, so that transforms of that specification find it;
// forget removes it.
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

// Serve makes this process a worker: open opens the engines of jobs that other processes have submitted.
func Serve(open func(spec []byte) (*engine.Engine, error)) {
	registry.Lock()
	defer registry.Unlock()
	registry.open = open
}

// engineOf returns the engine of spec.
func engineOf(spec []byte) (*engine.Engine, error) {
	registry.Lock()
	e, open := registry.engines[sha256.Sum256(spec)], registry.open
	registry.Unlock()
	switch {
	case e != nil:
		return e, nil
	case open == nil:
		return nil, fault.Bracket(errors.New("find engine: this process has not submitted the job and is no worker"))
	}
	e, err := open(spec)
	return e, fault.Bracket(err)
}

// reported returns the error that a transform gives to the runner. In a job of several processes, it reports err to the submitter and
// brackets it, so that it can be found in the runner's text.
func reported(e *engine.Engine, err error) error {
	if err == nil || e.Spread == nil {
		return err
	}
	return fault.Bracket(e.Spread.Report(err))
}
