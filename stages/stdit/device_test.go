package stdit

import (
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages/diffuse/dit"
)

// TestForwardOnDeferredDevice: on a Deferred device nothing is read before Download, no memory is assumed to be zero, and no
// tensor is used after its scope.
func TestForwardOnDeferredDevice(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		t.Run(cfg.name(), func(t *testing.T) {
			in := inputs(cfg, []int{2, 4, 3, 5, 6}) // 5 rows: the patch pads one
			want := newHarness(t, cfg, 1).forward(t, in)
			late := newHarnessOn(t, cfg, kerneltest.Deferred(cpu.New(1)))
			if !slices.Equal(late.forward(t, in), want) {
				t.Error("other bits on a late device")
			}
		})
	}
}

// TestSampleBytes: memory grows by the same amount with each row, and covers at least the residual stream,
// the hidden layer of the MLP and the texts.
func TestSampleBytes(t *testing.T) {
	c := DefaultConfig(OpenSora10)
	net := &denoiser{Config: c}
	var need [3]int64
	for i := range need {
		var err error
		if need[i], err = dit.SampleBytes(net, i+1, sizeOf(16, 32, 32), c.ModelMaxLength); err != nil {
			t.Fatal(err)
		}
	}
	const tables = 4 * (256 + 16) * 1152 // positions, shared by the rows
	row := need[1] - need[0]
	if need[2]-need[1] != row || need[0]-row != tables {
		t.Errorf("1, 2 and 3 rows need %v bytes, not %d and %d for each", need, tables, row)
	}
	tokens := int64(16 * 256 * 1152)
	text := int64(28 * 120 * 2 * 1152)
	if low, high := 4*(5*tokens+text), 4*(10*tokens+2*text); row < low || row > high {
		t.Errorf("a row needs %d bytes, expected between %d and %d", row, low, high)
	}
	if _, err := dit.SampleBytes(net, 1, sizeOf(16, 32, 32), 121); err == nil {
		t.Error("more tokens than model_max_length gave no error")
	}
}
