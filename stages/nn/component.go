package nn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"latentbeam/internal/fault"
	"latentbeam/internal/safetensors"
	"latentbeam/kernels"
	"latentbeam/stages"
)

// Component is one component of a published model, such as "text_encoder": its configuration C, its mapped
// weights and the model M made of them, once for each device memory of the process. Stages embed it for
// their Digest and Load.
type Component[C, M any] struct {
	Config C

	name    string
	digest  string
	weights *safetensors.File
	load    func(C, *Weights) (*M, error)

	mu     sync.Mutex
	loaded map[string]*M // by device
}

// OpenComponent reads the component's config.json (or what stands in for it, see stages.Model) and maps the weights beside it. load makes the model; it runs at the
// first use of each device.
func OpenComponent[C, M any](m *stages.Model, name string, parse func([]byte) (C, error),
	load func(C, *Weights) (*M, error)) (*Component[C, M], error) {
	data, err := m.Config(name)
	if err != nil {
		return nil, err
	}
	cfg, err := parse(data)
	if err != nil {
		return nil, err
	}
	weights, err := m.Weights(name)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(append(data, weights.Digest()...))
	return &Component[C, M]{Config: cfg, name: name, digest: hex.EncodeToString(digest[:]),
		weights: weights, load: load, loaded: map[string]*M{}}, nil
}

// Digest names the component by content: SHA-256 over config.json and the digest of the weights.
func (c *Component[C, M]) Digest() string { return c.digest }

// Load brings the weights to dev.
func (c *Component[C, M]) Load(dev kernels.Backend) error {
	_, err := c.On(dev)
	return err
}

// On returns the model on dev's memory, shared by all backends of it. An error is about the checkpoint: the
// job cannot be done with it.
func (c *Component[C, M]) On(dev kernels.Backend) (*M, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, ok := c.loaded[dev.Device()]; ok {
		return m, nil
	}
	m, err := c.load(c.Config, NewWeights(dev, c.weights))
	if err != nil {
		return nil, fault.Usage(fmt.Errorf("load %s: %w", c.name, err))
	}
	c.loaded[dev.Device()] = m
	return m, nil
}
