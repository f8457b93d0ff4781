package stdit

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// TestMeasureBlock times one block, or from 1.2 on one pair of blocks, of published width under guidance. A
// case is version, latents, tokens of text and type: "1.0 16x32x32 120 bf16"; type int8 is bf16 with products of 8 bits.
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

// measured returns the run of a case: the modulation, the keys and values of the text, and the block; and the
// stream (B, T', S, C) that it leaves.
func measured(t *testing.T, be kernels.Backend, name string) (run func(), x kernels.Tensor, err error) {
	var version, dtype string
	var size dit.LatentSize
	var tokens int
	_, err = fmt.Sscanf(name, "%s %dx%dx%d %d %s", &version, &size.T, &size.H, &size.W, &tokens, &dtype)
	if err != nil {
		return nil, x, err
	}
	cfg := DefaultConfig(map[string]Version{"1.0": OpenSora10, "1.2": OpenSora12}[version])
	cfg.Depth = 1
	if cfg.Int8 = dtype == "int8"; cfg.Int8 {
		dtype = "bf16"
	}
	cfg.DType = nntest.DType(t, dtype)
	m := newHarnessOn(t, cfg, be).m
	text := func(n, width int) kernels.Tensor {
		x := be.Alloc(cfg.DType, n, width)
		be.Upload(x, nntest.Hash("text", 1, n, width))
		return x
	}
	cond := Conditions{Height: float64(8 * size.H), Width: float64(8 * size.W), FPS: []float64{24}}
	caption := text(tokens, cfg.CaptionChannels)
	p, err := m.Prepare(be, size, cond, []kernels.Tensor{caption, caption})
	if err != nil {
		return nil, x, err
	}
	c := cfg.HiddenSize
	x = be.Alloc(cfg.DType, 2, p.times.Len, p.patches.Len, c)
	start := be.Alloc(cfg.DType, x.Shape...)
	be.Upload(start, nntest.Hash("x", 1, x.Shape...))
	y, step := text(2*tokens, c), text(2, c) // (sum L, C), (B, C)
	return func() {
		defer be.Scope()()
		be.Copy(x, start)
		for i, cross := range m.net.crosses() {
			cross.Keys(be, p.kv[i], y, p.lens)
		}
		if _, err := m.net.forward(be, alone(x, p), step, nn.FrameMask{B: 2, T: p.times.Len}); err != nil {
			t.Fatal(err)
		}
		if err := be.Wait(); err != nil {
			t.Fatal(err)
		}
	}, x, nil
}

// alone is the stream of a rank that has all tokens x (B, T', S, C).
func alone(x kernels.Tensor, p *Prepared) *stream {
	return &stream{parts: []part{{x, nn.Span{Len: x.Dim(0)}, p}}, p: p, dt: x.DType}
}
