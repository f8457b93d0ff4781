package weights

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/weights/lora"
	"latentbeam/stages/weights/safetensors"
)

// Weights returns the tensors of one or more safetensors files by name and records the requests: at the end, Check lists every
// tensor that was missing, had another shape, or was never requested. Sub selects a prefix of the names. A tensor that does not
// fit is returned as the zero Tensor, so that loading continues to the end and one error can list everything.
type Weights struct {
	prefix string
	as     *kernels.DType // convert to this type on loading; nil: as stored
	int8   []string       // prefixes of layers with 8-bit products
	cut    Cut            // the part of the layers to load
	stage  PipelineStage  // the blocks to load
	block  int            // 1-based index of the block that owns the tensors; 0: no block
	kind   string         // format of the block's name
	inside int            // start of the names inside the block
	*account
}

// account is shared by all Weights of one NewWeights.
type account struct {
	be        kernels.Backend
	found     map[string]safetensors.Tensor
	files     map[string]*safetensors.File // file of each tensor in found
	added     map[string]lora.Delta        // what adapters add to tensors
	requested map[string][]int
	blocks    map[string]int  // block of each requested tensor, counted from 1
	rounded   map[string]bool // weights with 8-bit products
	sizes     map[string]int  // number of loaded elements of each tensor
	flow      *Flow           // streams blocks; nil: all are resident
	faults    []Misfit
	loaded    []kernels.Tensor // all loaded tensors, some twice
	failed    error            // error of the device, at the first tensor that it did not accept
	// skipped are prefixes of tensors that other ranks load.
	skipped []string
	hints   []string // advice about misfits
	// misfits is the result of Check.
	misfits []Misfit
}

// NewWeights returns the tensors of files, to be loaded to be's device. The files must stay open while a loaded model is in
// use.
func NewWeights(be kernels.Backend, files ...*safetensors.File) *Weights {
	a := newAccount()
	a.be, a.found, a.files = be, map[string]safetensors.Tensor{}, map[string]*safetensors.File{}
	for _, f := range files {
		for _, name := range f.Names() {
			if _, twice := a.found[name]; twice {
				a.fault("duplicate", name, "is in more than one file")
				continue
			}
			a.found[name], _ = f.Tensor(name)
			a.files[name] = f
		}
	}
	return &Weights{account: a}
}

// ShapesOnly returns Weights that answer every request with a tensor that has a shape and no data. A model loaded from it
// cannot compute. It tells which tensors its configuration has (Requested) and how much memory it needs (PeakBytes).
func ShapesOnly() *Weights { return &Weights{account: newAccount()} }

func newAccount() *account {
	return &account{requested: map[string][]int{}, blocks: map[string]int{}, sizes: map[string]int{}, rounded: map[string]bool{}}
}

// Outline returns Weights for a checkpoint of which only names, types and shapes are known. A model loaded from it cannot
// compute; Misfits then lists what does not fit.
func Outline(tensors []safetensors.TensorInfo) *Weights {
	a := newAccount()
	a.found = map[string]safetensors.Tensor{}
	for _, t := range tensors {
		a.found[t.Name] = safetensors.Tensor{DType: t.DType, Shape: t.Shape}
	}
	return &Weights{account: a}
}

// Sub returns the tensors under name, a path of names joined by dots such as "blocks.0".
func (w *Weights) Sub(name string) *Weights {
	sub := *w
	sub.prefix += name + "."
	return &sub
}

// As returns the same tensors, rounded to dt on loading, as PyTorch's Module.to(dtype) does. Loading as fp32 changes nothing:
// narrower values are used as stored, because arithmetic is fp32 anyway.
func (w *Weights) As(dt kernels.DType) *Weights {
	as := *w
	as.as = &dt
	return &as
}

// Subf is Sub with a formatted name, for numbered layers.
func (w *Weights) Subf(format string, args ...any) *Weights {
	return w.Sub(fmt.Sprintf(format, args...))
}

// Has reports whether the files have the tensor, for tensors with several published names.
func (w *Weights) Has(name string) bool {
	_, ok := w.found[w.prefix+name]
	return ok
}

// Same reports whether two tensors that should be equal have the same bytes. It is true if one of them does not exist.
func (w *Weights) Same(a, b string) bool {
	first, second := w.found[w.prefix+a], w.found[w.prefix+b]
	return first.Data == nil || second.Data == nil || bytes.Equal(first.Data, second.Data)
}

// Tensor returns the named tensor, which must have exactly this shape.
func (w *Weights) Tensor(name string, shape ...int) kernels.Tensor {
	return w.load(name, shape, func(have []int) bool { return slices.Equal(have, shape) }, Subset{})
}

// Rows returns the named tensor of shape (rows, cols). The tensor in the file may have any other positive number of rows.
func (w *Weights) Rows(name string, rows, cols int) kernels.Tensor {
	return w.load(name, []int{rows, cols}, func(have []int) bool {
		return len(have) == 2 && have[0] > 0 && have[1] == cols
	}, Subset{})
}

// Pointwise returns the named tensor as (out, in). Some conversions store such a matrix as the weight of a 1x1 convolution,
// (out, in, 1, 1).
func (w *Weights) Pointwise(name string, out, in int) kernels.Tensor {
	t := w.load(name, []int{out, in}, func(have []int) bool {
		return slices.Equal(have, []int{out, in}) || slices.Equal(have, []int{out, in, 1, 1})
	}, Subset{})
	if t.IsZero() {
		return t
	}
	return t.Reshape(out, in)
}

// Values returns the named vector of n numbers on the host, for tables that a model computes from it. It returns nil if the
// file does not have the vector.
func (w *Weights) Values(name string, n int) []float32 {
	name = w.prefix + name
	w.requested[name] = []int{n}
	t, ok := w.found[name]
	if !ok {
		return nil
	}
	t = t.Widened()
	dt, known := kernels.DTypes[t.DType]
	if !known || !slices.Equal(t.Shape, []int{n}) {
		w.fault("wrong shape", name, fmt.Sprintf("%s %v, want [%d]", t.DType, t.Shape, n))
		return nil
	}
	if w.be == nil { // Outline
		return make([]float32, n)
	}
	return dt.Values(t.Data)
}

// Flow returns what streams the model's blocks, nil if all are resident.
func (w *Weights) Flow() *Flow { return w.flow }

// Requested returns the name and the expected shape of every tensor requested so far.
func (w *Weights) Requested() map[string][]int { return maps.Clone(w.requested) }

func (w *Weights) load(name string, want []int, fits func(have []int) bool, part Subset) kernels.Tensor {
	name = w.prefix + name
	t, dt, ok := w.find(name, want, fits)
	switch {
	case w.found == nil: // ShapesOnly
		return kernels.NewTensor(kernels.F32, w.account, part.shape(want)...)
	case !ok:
		return kernels.Tensor{}
	case w.be == nil: // Outline
		outline := kernels.NewTensor(dt, w.account, part.shape(t.Shape)...)
		w.sizes[name] = outline.Len()
		return outline
	}
	from := part.source(t, dt)
	from.mapped, from.added = w.files[name].Mapped(), w.added[name]
	return w.make(name, part.shape(t.Shape), from)
}

// find records the request for a tensor by its full name, and returns the tensor, if it fits, with its type.
func (w *Weights) find(name string, want []int, fits func(have []int) bool) (
	t safetensors.Tensor, dt kernels.DType, fit bool) {
	w.requested[name] = slices.Clone(want)
	w.blocks[name] = w.block
	t, ok := w.found[name]
	dt, known := kernels.DTypes[t.Type()]
	switch {
	case w.found == nil:
		return t, dt, false
	case !ok:
		w.fault("missing", name, fmt.Sprintf("%v", want))
	case !fits(t.Shape):
		w.fault("wrong shape", name, fmt.Sprintf("%v, want %v", t.Shape, want))
	case !known:
		w.fault(wrongType, name, t.DType+wantType(t.DType))
	case w.be == nil:
		return t, dt, true
	case w.files[name].IsFinite():
		return t, dt, true
	default:
		i := t.NotFinite()
		if i < 0 {
			return t, dt, true
		}
		w.fault("not finite", name, fmt.Sprintf("element %d is %g: the checkpoint is damaged", i, dt.At(t.Widened().Data, i)))
	}
	return t, dt, false
}

// wantType says which types are supported instead of dtype.
func wantType(dtype string) string {
	if dtype == "I8" {
		return " without a scale (scale_weight, weight_scale), want F32, BF16, F16 or fp8"
	}
	return ", want F32, BF16, F16, or 8 bits: fp8, or I8 with a scale"
}

// make loads a tensor to the device and rounds it if required. name is its full name.
func (w *Weights) make(name string, shape []int, from source) kernels.Tensor {
	if w.failed != nil {
		return kernels.Tensor{}
	}
	if w.as != nil && (converted(from.from, *w.as) || from.added != nil) {
		from.to = *w.as
	}
	loaded, err := w.flow.load(w, name, shape, from)
	if err != nil {
		w.failed = fmt.Errorf("load tensor %q: %w", name, err)
		return kernels.Tensor{}
	}
	w.account.loaded = append(w.account.loaded, loaded)
	return loaded
}
