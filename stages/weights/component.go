package weights

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights/lora"
	"latentbeam/stages/weights/safetensors"
)

// Component is one component of a published model, such as "text_encoder": its configuration C, its mapped weights, and the
// model M, made once for each device memory of the process. Stages embed it for its methods Digest and Load.
type Component[C, M any] struct {
	Config C

	name    string
	digest  string
	weights *safetensors.File
	added   map[string]lora.Delta // what adapters add to tensors
	load    func(C, *Weights) (*M, error)

	mu      sync.Mutex
	current placement
	loaded  map[modelPlace]*resident[M]
}

// placement is the placement of the weights in memory.
type placement struct {
	version  int              // number of changes
	streamed bool             // all but the first blocks of each run are streamed
	stay     int              // number of blocks of a run that are not streamed
	runs     []sequence.Range // blocks of each pipeline stage; nil: equal numbers
}

// resident is a model in the memory of a device.
type resident[M any] struct {
	version int
	refill  kernels.Refiller // streams blocks; nil: none are streamed
	load    func() (*M, error)
	weights []kernels.Tensor // set once loaded
}

// modelPlace identifies a device and the part of a model that it has.
type modelPlace struct {
	device string
	shard  Shard
}

// Shard is a rank's part of a model: of the heads and columns, and of the blocks. The zero value is the whole model.
type Shard struct {
	Cut   Cut
	Stage PipelineStage
}

// OpenComponent reads the component's config.json (or its replacement, see stages.Model) and maps the weights beside it. load
// makes the model; it runs at the first use on each device.
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
	if err != nil && m.Lack("weights of "+name, err) {
		weights, err = outline(data, cfg, load)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(data, weights.Digest()...))
	added, digest, err := adapt(m, name, weights, hex.EncodeToString(sum[:]))
	if err != nil {
		return nil, err
	}
	return &Component[C, M]{Config: cfg, name: name, digest: digest, weights: weights, added: added, load: load,
		loaded: map[modelPlace]*resident[M]{}}, nil
}

// outline returns a file with all tensors that a configuration needs, without their data. They have the type that config.json
// names, else float32, PyTorch's default.
func outline[C, M any](config []byte, cfg C, load func(C, *Weights) (*M, error)) (*safetensors.File, error) {
	var said struct {
		DType string `json:"dtype"`
		Torch string `json:"torch_dtype"`
	}
	_ = json.Unmarshal(config, &said) // the component's own parser has parsed it
	dtype := map[string]string{"bfloat16": "BF16", "float16": "F16"}[cmp.Or(said.DType, said.Torch)]
	shapes := ShapesOnly()
	if _, err := load(cfg, shapes); err != nil {
		return nil, err
	}
	var file safetensors.Other
	for name, shape := range shapes.Requested() {
		file.Tensors = append(file.Tensors, safetensors.Place{TensorInfo: safetensors.TensorInfo{Name: name, DType: cmp.Or(dtype, "F32"), Shape: shape}})
	}
	return safetensors.Show(file)
}

// Digest identifies the component by content: SHA-256 over config.json and the digest of the weights. If adapters are added, it
// is computed over this digest and the adapters.
func (c *Component[C, M]) Digest() string { return c.digest }

// Renew changes the component's digest, because results differ from those of earlier releases.
func (c *Component[C, M]) Renew(why string) {
	sum := sha256.Sum256([]byte(c.digest + " " + why))
	c.digest = hex.EncodeToString(sum[:])
}

// Numbers returns the values of a tensor of the file, nil if there is none with this name and a known type.
func (c *Component[C, M]) Numbers(name string) []float32 {
	t, found := c.weights.Tensor(name)
	t = t.Widened()
	dt, known := kernels.DTypes[t.DType]
	if !found || !known {
		return nil
	}
	return dt.Values(t.Data)
}

// Raw returns the data of a tensor of the file that is not a weight, nil if there is none.
func (c *Component[C, M]) Raw(name string) []byte {
	t, _ := c.weights.Tensor(name)
	return t.Data
}

// Metadata returns a text from the file's metadata, "" if there is none.
func (c *Component[C, M]) Metadata(key string) string { return c.weights.Metadata()[key] }

// Load loads the weights to dev.
func (c *Component[C, M]) Load(dev kernels.Backend) error {
	_, err := c.On(dev)
	return err
}

// Loading says how weights are loaded to devices: whole, or block by block if memory requires it.
func (c *Component[C, M]) Loading() *stages.Loading {
	return &stages.Loading{Load: c.Load, Staying: c.Staying, Stream: c.Stream}
}

// Stream makes blocks stream through memory, except for the first stay blocks of every rank's run (see Flow).
func (c *Component[C, M]) Stream(stay int) {
	c.mu.Lock()
	runs := c.current.runs
	c.mu.Unlock()
	c.setPlacement(placement{streamed: true, stay: stay, runs: runs})
}

// setPlacement changes the placement of the weights. Loaded models are replaced at the next use of their device. If the device has its
// own memory, no one else may use the model then.
func (c *Component[C, M]) setPlacement(want placement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.current
	if want.streamed != now.streamed || want.stay != now.stay || !slices.Equal(want.runs, now.runs) {
		want.version = now.version + 1
		c.current = want
	}
}

// Staying returns the number of first blocks in every rank's run that are resident, and the number of all blocks.
func (c *Component[C, M]) Staying() (stay, of int) {
	of = len(c.bytesOf(kernels.F32, Shard{})) - 1
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.streamed {
		return min(c.current.stay, of), of
	}
	return of, of
}

// On returns the model in dev's memory, shared by all backends of the device: the whole model, or on a rank of TensorParallel
// the rank's part. An error concerns the checkpoint: the job cannot run with it.
func (c *Component[C, M]) On(dev kernels.Backend) (*M, error) { return c.Part(dev, PipelineStage{}) }

// Part is On for a rank that has only some of the blocks.
func (c *Component[C, M]) Part(dev kernels.Backend, stage PipelineStage) (*M, error) {
	return c.shard(dev, Shard{cutOf(dev), stage})
}

func (c *Component[C, M]) shard(dev kernels.Backend, shard Shard) (*M, error) {
	if shard.Cut.Ways <= 1 {
		shard.Cut = Cut{}
	}
	c.mu.Lock()
	now := c.current
	switch n := shard.Stage.Ways; {
	case n <= 1:
		shard.Stage = PipelineStage{}
	case n == len(now.runs):
		shard.Stage.Run = now.runs[shard.Stage.Rank]
	}
	at := modelPlace{dev.Device(), shard}
	one := c.loaded[at]
	if one == nil || one.version != now.version || one.refill != nil && one.refill != dev.Capabilities().Refiller {
		var gone []*resident[M]
		for place, r := range c.loaded {
			if place.device == at.device && (r == one || r.version != now.version) {
				gone = append(gone, r)
				delete(c.loaded, place)
			}
		}
		one = &resident[M]{version: now.version}
		if now.streamed {
			one.refill = dev.Capabilities().Refiller
		}
		one.load = sync.OnceValues(func() (*M, error) {
			release(dev, gone)
			return c.read(dev, at, one, now)
		})
		c.loaded[at] = one
	}
	c.mu.Unlock()
	return one.load()
}

// Free removes the model from dev's memory and reports whether there was one. If the device has its own memory, no one else may
// use the model then.
func (c *Component[C, M]) Free(dev kernels.Backend) bool {
	c.mu.Lock()
	var gone []*resident[M]
	for place, r := range c.loaded {
		if place.device == dev.Device() {
			gone = append(gone, r)
			delete(c.loaded, place)
		}
	}
	c.mu.Unlock()
	release(dev, gone)
	return len(gone) > 0
}

// Resident reports whether the model, or a part of it, is in dev's memory.
func (c *Component[C, M]) Resident(dev kernels.Backend) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for place := range c.loaded {
		if place.device == dev.Device() {
			return true
		}
	}
	return false
}

// Check checks the tensors without loading them. The error lists the tensors that do not fit.
func (c *Component[C, M]) Check() error {
	if _, err := c.load(c.Config, Outline(c.weights.Infos())); err != nil {
		return fmt.Errorf("load %s: %w", c.name, err)
	}
	return nil
}

// release frees the memory of models that are no longer used, if the device supports it. Otherwise the memory is freed when its
// last user drops it.
func release[M any](dev kernels.Backend, gone []*resident[M]) {
	giveBack := dev.Capabilities().Release
	if giveBack == nil {
		return
	}
	for _, one := range gone {
		_, _ = one.load() // wait for a load that is running
		for _, t := range one.weights {
			giveBack(t)
		}
	}
}

func (c *Component[C, M]) read(dev kernels.Backend, at modelPlace, one *resident[M], now placement) (*M, error) {
	w := NewWeights(dev, c.weights).Cut(at.shard.Cut).Stage(at.shard.Stage)
	w.added = c.added
	if now.streamed {
		w.flow = newFlow(dev, now.stay)
	}
	m, err := c.load(c.Config, w)
	one.weights = w.loaded
	if err == nil {
		return m, nil
	}
	c.mu.Lock()
	if c.loaded[at] == one {
		delete(c.loaded, at) // another attempt may find room
	}
	c.mu.Unlock()
	if giveBack := dev.Capabilities().Release; giveBack != nil {
		for _, t := range one.weights {
			giveBack(t)
		}
	}
	if err = fmt.Errorf("load %s: %w", c.name, err); fault.ClassOf(w.failed) == fault.ClassRetry {
		return nil, err // an error of the device
	}
	return nil, fault.Usage(err)
}
