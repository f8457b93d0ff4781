package wan

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// TestMeasureBlock times one block of Wan 2.1 1.3B on one row. A case is latents, tokens of text and type: "5x60x104 512 bf16"; type int8 is
// bf16 with products of 8 bits. The keys and values of the text, which all steps of a job share, are not timed.
func TestMeasureBlock(t *testing.T) {
	be := nntest.Device(t)
	be.Scope() // never closed: tensors are in the arena, as in a run
	nntest.Rounds(t, be, func(name string) nntest.Measured {
		run, x, err := measured(t, be, name)
		if err != nil {
			t.Fatalf("case %q: %v", name, err)
		}
		return nntest.Measured{Run: run, Result: func() []float32 { return nntest.Values(t, be, x) }}
	})
}

// measured returns the run of a case, and the stream (1, T', S, C) that it leaves.
func measured(t *testing.T, be kernels.Backend, name string) (run func(), x kernels.Tensor, err error) {
	var size dit.LatentSize
	var tokens int
	var dtype string
	if _, err = fmt.Sscanf(name, "%dx%dx%d %d %s", &size.T, &size.H, &size.W, &tokens, &dtype); err != nil {
		return nil, x, err
	}
	cfg := DefaultConfig()
	cfg.Heads, cfg.FFN, cfg.Layers = 12, 8960, 1
	if cfg.Int8 = dtype == "int8"; cfg.Int8 {
		dtype = "bf16"
	}
	cfg.DType = nntest.DType(t, dtype)
	m := nntest.Loaded(t, be, cfg, Load, nntest.File(t, nntest.Shapes(t, cfg, Load)))
	c := cfg.Hidden()
	uploaded := func(name string, dt kernels.DType, shape ...int) kernels.Tensor {
		x := be.Alloc(dt, shape...)
		be.Upload(x, nntest.Hash(name, 1, shape...))
		return x
	}
	frames, h, w := cfg.PatchSize.Grid(size.T, size.H, size.W)
	caption := &stages.Array{Shape: []int{1, cfg.TextWidth}, Data: make([]float32, cfg.TextWidth)}
	rows := &dit.Rows{Size: size, Rows: []dit.BatchRow{{Element: &stages.Element{Text: &stages.Text{Embedding: caption}}}},
		Parts: []nn.Part{{Rows: nn.Span{Len: 1}, Patches: nn.Span{Len: h * w}}}}
	rows.Rows[0].Row.MaxSequenceLength = tokens
	made, err := m.Prepare(be, rows)
	if err != nil {
		return nil, x, err
	}
	b := made.(*batch)
	text := uploaded("text", cfg.DType, tokens+1, c) // embedded; the last one is that of padding
	m.blocks[0].cross.keys(be, b.kv[0], text, []int{tokens})
	mod := uploaded("mod", kernels.F32, 1, 1, 6, c)
	start := uploaded("x", cfg.DType, 1, frames, h*w, c)
	x = be.Alloc(cfg.DType, start.Shape...)
	return func() {
		be.Copy(x, start)
		if err := b.advance(0, []kernels.Tensor{x}, mod); err != nil {
			t.Fatal(err)
		}
		if err := be.Wait(); err != nil {
			t.Fatal(err)
		}
	}, x, nil
}
