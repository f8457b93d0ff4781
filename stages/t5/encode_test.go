package t5

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/nn/nntest"
)

// TestMeasureEncode times the whole encoder on one prompt, in bf16, to the embedding on the host. A case is width (xxl,
// or small for a test of the test), layers and tokens: "xxl 24 120".
func TestMeasureEncode(t *testing.T) {
	be := nntest.Device(t)
	var e *Encoder
	var opened string
	nntest.Rounds(t, be, func(name string) nntest.Measured {
		var width string
		var layers, tokens int
		if _, err := fmt.Sscanf(name, "%s %d %d", &width, &layers, &tokens); err != nil {
			t.Fatalf("case %q: %v", name, err)
		}
		if model := fmt.Sprint(width, layers); model != opened {
			e, opened = nil, model
			e = repeated(t, be, width, layers)
		}
		ids := [][]int32{make([]int32, tokens)}
		for i := range ids[0] {
			ids[0][i] = int32(3 + 7*i%100)
		}
		var out []float32
		return nntest.Measured{
			Run:    func() { out = encode(t, be, e, ids)[0] },
			Result: func() []float32 { return out },
			Need:   func() int64 { return nntest.Need(t)(e.EncodeBytes(1, tokens)) },
		}
	})
}

// repeated is an encoder of a width whose layers have the same weights.
func repeated(t *testing.T, be kernels.Backend, width string, layers int) *Encoder {
	t.Helper()
	cfg, _ := xxl(t, layers)
	if width == "small" {
		cfg.DModel, cfg.DFF, cfg.NumHeads, cfg.VocabSize = 256, 640, 4, 128
	}
	return nntest.Loaded(t, be, cfg, Load, nntest.Repeated(t, nntest.Shapes(t, cfg, Load)))
}
