package stdit

import (
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
)

// harness is a model on a backend, with weights that are the hash of their names.
type harness struct {
	be kernels.Backend
	m  *Model
}

func newHarness(t testing.TB, cfg Config, threads int) harness {
	t.Helper()
	return newHarnessOn(t, cfg, cpu.New(threads))
}

func newHarnessOn(t testing.TB, cfg Config, be kernels.Backend) harness {
	t.Helper()
	return harness{be, nntest.Loaded(t, be, cfg, Load, nntest.File(t, shapes(t, cfg)))}
}

// shapes returns the tensors that a model asks for, without the frequencies of rotary positions: those are
// computed by formula where a file lacks them.
func shapes(t testing.TB, cfg Config) map[string][]int {
	t.Helper()
	out := nntest.Shapes(t, cfg, Load)
	delete(out, "rope.freqs")
	return out
}

// evaluation is the input of one evaluation of the network; see Forward.
type evaluation struct {
	x         kernels.Tensor
	timesteps []float32
	generated []bool
	prepared  *Prepared
}

// input is what one evaluation takes.
type input struct {
	shape     []int     // (B, c_in, T, H, W)
	x         []float32 // of that shape
	timesteps []float32
	texts     [][]float32 // (B)(L, caption_channels)
	cond      Conditions
	generated []bool // (B, T)

	given, givenMask []float32 // of shape, for frames
	frames           []int
}

// row returns only row i of in.
func (in input) row(i int) input {
	b, n := in.shape[0], len(in.x)/in.shape[0]
	one := in
	one.shape = append([]int{1}, in.shape[1:]...)
	one.x, one.timesteps, one.texts = in.x[i*n:][:n], in.timesteps[i:][:1], in.texts[i:][:1]
	if len(in.cond.FPS) == b {
		one.cond.FPS = in.cond.FPS[i:][:1]
	}
	if in.generated != nil {
		one.generated = in.generated[i*in.shape[2]:][:in.shape[2]]
	}
	if in.given != nil {
		one.given, one.givenMask = in.given[i*n:][:n], in.givenMask[i*n:][:n]
	}
	return one
}

func (in input) size() dit.LatentSize { return sizeOf(in.shape[2], in.shape[3], in.shape[4]) }

// upload returns the texts, each (L, caption_channels), as tensors.
func (r harness) upload(texts [][]float32) []kernels.Tensor {
	out := make([]kernels.Tensor, len(texts))
	for i, text := range texts {
		out[i] = r.be.Alloc(kernels.F32, len(text)/r.m.CaptionChannels, r.m.CaptionChannels)
		r.be.Upload(out[i], text)
	}
	return out
}

func (r harness) latents(x []float32, shape []int) kernels.Tensor {
	latents := r.be.Alloc(kernels.F32, shape...)
	r.be.Upload(latents, x)
	return latents
}

// forward evaluates the model once.
func (r harness) forward(t testing.TB, in input) []float32 {
	t.Helper()
	defer r.be.Scope()()
	e := r.evaluation(t, in)
	out, err := r.evaluate(in.x, in.shape, in.timesteps, in.generated, e.prepared)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// evaluation brings in to the device, in the scope open at the call.
func (r harness) evaluation(t testing.TB, in input) evaluation {
	t.Helper()
	p, err := r.m.Prepare(r.be, in.size(), in.cond, r.upload(in.texts))
	if err != nil {
		t.Fatal(err)
	}
	if in.given != nil {
		given, mask := r.latents(in.given, in.shape), r.latents(in.givenMask, in.shape)
		if err := r.m.Condition(r.be, p, given, mask, in.frames); err != nil {
			t.Fatal(err)
		}
	}
	return evaluation{r.latents(in.x, in.shape), in.timesteps, in.generated, p}
}

func (r harness) evaluate(x []float32, shape []int, timesteps []float32, generated []bool, p *Prepared) (
	[]float32, error) {
	defer r.be.Scope()()
	out, err := r.m.Forward(r.be, r.latents(x, shape), timesteps, generated, p)
	if err != nil {
		return nil, err
	}
	values := make([]float32, out.Len())
	return values, r.be.Download(values, out)
}
