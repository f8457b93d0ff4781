package t5

import (
	"fmt"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// TestMeasureBlock times one layer of T5-xxl on one prompt. A case is tokens and type: "120 bf16"; type int8 is bf16 with products of 8 bits.
func TestMeasureBlock(t *testing.T) {
	be := nntest.Device(t)
	be.Scope() // never closed: tensors are in the arena, as in a run
	cfg := Config{VocabSize: 128, DModel: 4096, DKV: 64, DFF: 10240, NumLayers: 1, NumHeads: 64,
		NumBuckets: numBuckets, MaxDistance: maxDistance, Epsilon: 1e-6, FeedForward: "gated-gelu"}
	var e *Encoder
	nntest.Rounds(t, be, func(name string) nntest.Measured {
		var tokens int
		var dtype string
		if _, err := fmt.Sscanf(name, "%d %s", &tokens, &dtype); err != nil {
			t.Fatalf("case %q: %v", name, err)
		}
		int8 := dtype == "int8"
		if int8 {
			dtype = "bf16"
		}
		want := nntest.DType(t, dtype)
		if e == nil || e.DType != want || e.Int8 != int8 {
			e, cfg.DType, cfg.Int8 = nil, want, int8
			e = hashed(t, cfg, be)
		}
		ids := [][]int32{make([]int32, tokens)}
		bias := e.positionBias(be, tokens)
		x := be.Alloc(e.DType, tokens, e.DModel) // (L, d_model)
		start := be.Alloc(e.DType, x.Shape...)
		be.Upload(start, nntest.Hash("x", 1, x.Shape...))
		run := func() {
			be.Copy(x, start)
			e.attend(be, &e.layers[0], x, bias, ids)
			e.feedForward(be, &e.layers[0], x)
			if err := be.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		return nntest.Measured{Run: run, Result: func() []float32 { return nntest.Values(t, be, x) }}
	})
}
