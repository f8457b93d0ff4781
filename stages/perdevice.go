package stages

import (
	"sync"

	"latentbeam/kernels"
)

// Loader is a Stage with weights. Load brings them to the device's memory, once however often it is
// called, so that a checkpoint that does not fit is known before the first row.
type Loader interface {
	Load(dev kernels.Backend) error
}

// PerDevice holds one loaded model for every device memory of a process, shared by all backends of it.
type PerDevice[T any] struct {
	New func(dev kernels.Backend) (T, error)

	mu     sync.Mutex
	loaded map[string]T
}

// On returns the model on dev's memory, loading it at the first call. A failed load is tried again.
func (p *PerDevice[T]) On(dev kernels.Backend) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.loaded[dev.Device()]; ok {
		return m, nil
	}
	m, err := p.New(dev)
	if err != nil {
		return m, err
	}
	if p.loaded == nil {
		p.loaded = map[string]T{}
	}
	p.loaded[dev.Device()] = m
	return m, nil
}
