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

// Component is one component of a published model, such as "text_encoder": its configuration C, its mapped
// weights and the model M made of them, once for each device memory of the process. Stages embed it for
// their Digest and Load.
type Component[C, M any] struct {
	Config C

	name    string
	digest  string
	weights *safetensors.File
	added   map[string]lora.Delta // what adapters add to tensors
	load    func(C, *Weights) (*M, error)

	mu     sync.Mutex
	held   held
	loaded map[modelPlace]*resident[M]
}

// held is how the weights are to lie in memory.
type held struct {
	turn     int              // how often that was changed
	streamed bool             // all blocks but the first of each run pass through memory
	stay     int              // how many of a run do not
	runs     []sequence.Range // blocks of each stage of a pipeline; none: equal numbers
}

// resident is a model in the memory of a device.
type resident[M any] struct {
	turn    int
	refill  kernels.Refiller // through which blocks pass; nil: through none
	load    func() (*M, error)
	weights []kernels.Tensor // once it is loaded
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
	Stage PipelineStage
}

// OpenComponent reads the component's config.json (or what stands in for it, see stages.Model) and maps the
// weights beside it. load makes the model; it runs at the first use of each device.
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

// outline is a file of all tensors that a configuration asks for, without their bytes. They have the type that config.json names, else
// that of PyTorch, float32.
func outline[C, M any](config []byte, cfg C, load func(C, *Weights) (*M, error)) (*safetensors.File, error) {
	var said struct {
		DType string `json:"dtype"`
		Torch string `json:"torch_dtype"`
	}
	_ = json.Unmarshal(config, &said) // the component's own reader has read it
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

// Digest names the component by content: SHA-256 over config.json and the digest of the weights, and where adapters are
// added to them over this and the adapters.
func (c *Component[C, M]) Digest() string { return c.digest }

// Renew gives the component another digest: rows with the old one have another result.
func (c *Component[C, M]) Renew(why string) {
	sum := sha256.Sum256([]byte(c.digest + " " + why))
	c.digest = hex.EncodeToString(sum[:])
}

// Numbers returns the values of a tensor of the file, nil where it has none of that name or type.
func (c *Component[C, M]) Numbers(name string) []float32 {
	t, found := c.weights.Tensor(name)
	t = t.Widened()
	dt, known := kernels.DTypes[t.DType]
	if !found || !known {
		return nil
	}
	return dt.Values(t.Data)
}

// Raw returns the bytes of a tensor of the file that is no weight, nil where there is none.
func (c *Component[C, M]) Raw(name string) []byte {
	t, _ := c.weights.Tensor(name)
	return t.Data
}

// Metadata returns a text that the file says of itself, "" where it says none.
func (c *Component[C, M]) Metadata(key string) string { return c.weights.Metadata()[key] }

// Load brings the weights to dev.
func (c *Component[C, M]) Load(dev kernels.Backend) error {
	_, err := c.On(dev)
	return err
}

// Loading is how the weights come to devices: whole, and block by block where memory asks for it.
func (c *Component[C, M]) Loading() *stages.Loading {
	return &stages.Loading{Load: c.Load, Staying: c.Staying, Stream: c.Stream}
}

// Stream lets blocks pass through memory instead of being there all the time, but for the first so many of every
// rank's run (see Flow).
func (c *Component[C, M]) Stream(stay int) {
	c.mu.Lock()
	runs := c.held.runs
	c.mu.Unlock()
	c.lay(held{streamed: true, stay: stay, runs: runs})
}

// lay says how the weights are to lie from now on. What is loaded already gives way at the next use of its device,
// which nobody else may use then if it has a memory of its own.
func (c *Component[C, M]) lay(want held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.held
	if want.streamed != now.streamed || want.stay != now.stay || !slices.Equal(want.runs, now.runs) {
		want.turn = now.turn + 1
		c.held = want
	}
}

// Staying returns how many of the first blocks of every rank's run stay in memory, and how many blocks there are.
func (c *Component[C, M]) Staying() (stay, of int) {
	of = len(c.bytesOf(kernels.F32, Shard{})) - 1
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held.streamed {
		return min(c.held.stay, of), of
	}
	return of, of
}

// On returns the model on dev's memory, shared by all backends of it: all of it, or on a rank of TensorParallel
// that rank's cut. An error is about the checkpoint: the job cannot be done with it.
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
	now := c.held
	switch n := shard.Stage.Ways; {
	case n <= 1:
		shard.Stage = PipelineStage{}
	case n == len(now.runs):
		shard.Stage.Run = now.runs[shard.Stage.Rank]
	}
	at := modelPlace{dev.Device(), shard}
	one := c.loaded[at]
	if one == nil || one.turn != now.turn || one.refill != nil && one.refill != dev.Capabilities().Refiller {
		var gone []*resident[M]
		for place, r := range c.loaded {
			if place.device == at.device && (r == one || r.turn != now.turn) {
				gone = append(gone, r)
				delete(c.loaded, place)
			}
		}
		one = &resident[M]{turn: now.turn}
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

// Free forgets the model on dev's memory, where it has one, and reports whether it had. Nobody else may use it then if the
// device has a memory of its own.
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

// Resident reports whether the model, or a part of it, is on dev's memory.
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

// Check looks at the tensors without loading them. The error lists those that do not fit.
func (c *Component[C, M]) Check() error {
	if _, err := c.load(c.Config, Outline(c.weights.Infos())); err != nil {
		return fmt.Errorf("load %s: %w", c.name, err)
	}
	return nil
}

// release gives back the memory of models that nobody uses any more, where the device can; else it is given back when
// the last that has one is done with it.
func release[M any](dev kernels.Backend, gone []*resident[M]) {
	giveBack := dev.Capabilities().Release
	if giveBack == nil {
		return
	}
	for _, one := range gone {
		_, _ = one.load() // it may be under way
		for _, t := range one.weights {
			giveBack(t)
		}
	}
}

func (c *Component[C, M]) read(dev kernels.Backend, at modelPlace, one *resident[M], now held) (*M, error) {
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
		delete(c.loaded, at) // the next one may find room
	}
	c.mu.Unlock()
	if giveBack := dev.Capabilities().Release; giveBack != nil {
		for _, t := range one.weights {
			giveBack(t)
		}
	}
	if err = fmt.Errorf("load %s: %w", c.name, err); fault.ClassOf(w.failed) == fault.ClassRetry {
		return nil, err // of the device
	}
	return nil, fault.Usage(err)
}
