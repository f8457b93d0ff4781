package nn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"latentbeam/internal/fault"
	"latentbeam/internal/plan/weights"
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

	streamed bool            // all blocks but the first of each run pass through memory
	stay     int             // how many of a run do not
	runs     []weights.Range // blocks of each stage of a pipeline; none: equal numbers

	mu     sync.Mutex
	loaded map[modelPlace]func() (*M, error)
}

// modelPlace is a device and what of a model it has.
type modelPlace struct {
	device string
	shard  Shard
}

// Shard is what a rank has of a model: its part of the heads and columns, and of the blocks. The zero value is
// all of it.
type Shard struct {
	Cut   Cut
	Stage Stage
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
		weights: weights, load: load, loaded: map[modelPlace]func() (*M, error){}}, nil
}

// Digest names the component by content: SHA-256 over config.json and the digest of the weights.
func (c *Component[C, M]) Digest() string { return c.digest }

// Load brings the weights to dev.
func (c *Component[C, M]) Load(dev kernels.Backend) error {
	_, err := c.On(dev)
	return err
}

// Stream lets blocks pass through memory instead of being there all the time, but for the first so many of every
// rank's run (see Flow). It is to be called before the first use.
func (c *Component[C, M]) Stream(stay int) { c.streamed, c.stay = true, stay }

// On returns the model on dev's memory, shared by all backends of it: all of it, or on a rank of TensorParallel
// that rank's cut. An error is about the checkpoint: the job cannot be done with it.
func (c *Component[C, M]) On(dev kernels.Backend) (*M, error) { return c.Part(dev, Stage{}) }

// Part is On for a rank that has only some of the blocks.
func (c *Component[C, M]) Part(dev kernels.Backend, stage Stage) (*M, error) {
	return c.shard(dev, Shard{cutOf(dev), stage})
}

func (c *Component[C, M]) shard(dev kernels.Backend, shard Shard) (*M, error) {
	if shard.Cut.Ways <= 1 {
		shard.Cut = Cut{}
	}
	switch n := shard.Stage.Ways; {
	case n <= 1:
		shard.Stage = Stage{}
	case n == len(c.runs):
		shard.Stage.Run = c.runs[shard.Stage.Rank]
	}
	at := modelPlace{dev.Device(), shard}
	c.mu.Lock()
	load, ok := c.loaded[at]
	if !ok {
		load = sync.OnceValues(func() (*M, error) { return c.read(dev, at.shard) })
		c.loaded[at] = load
	}
	c.mu.Unlock()
	return load()
}

func (c *Component[C, M]) read(dev kernels.Backend, shard Shard) (*M, error) {
	w := NewWeights(dev, c.weights).Cut(shard.Cut).Stage(shard.Stage)
	if c.streamed {
		w.flow = newFlow(dev, c.stay)
	}
	m, err := c.load(c.Config, w)
	if err != nil {
		c.mu.Lock()
		delete(c.loaded, modelPlace{dev.Device(), shard}) // the next one may find room
		c.mu.Unlock()
		return nil, fault.Usage(fmt.Errorf("load %s: %w", c.name, err))
	}
	return m, nil
}
