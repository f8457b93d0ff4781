package t5

import (
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
)

// TestEncodeOnDeferredDevice: on a Deferred device nothing is read before Download, no memory is assumed to be zero, and no
// tensor is used after its scope.
func TestEncodeOnDeferredDevice(t *testing.T) {
	late := func(cfg Config, c goldenCase) {
		direct, late := cpu.New(1), kerneltest.Deferred(cpu.New(1))
		want := encode(t, direct, hashed(t, cfg, direct), c.IDs)
		for i, row := range encode(t, late, hashed(t, cfg, late), c.IDs) {
			if !slices.Equal(row, want[i]) {
				t.Errorf("%s, %d tokens: other bits on a late device", cfg.ModelType, len(c.IDs[i]))
			}
		}
	}
	late(readGolden(t))
	late(readVariant(t, modelUMT5))
}

// TestEncodeBytes: the bias table is shared; all other memory grows with the number of prompts.
func TestEncodeBytes(t *testing.T) {
	cfg, _ := readGolden(t)
	var need [3]int64
	for i := range need {
		var err error
		if need[i], err = cfg.EncodeBytes(i+1, 20); err != nil {
			t.Fatal(err)
		}
	}
	row := need[1] - need[0]
	if need[2]-need[1] != row || need[0]-row != int64(4*cfg.NumHeads*20*20) {
		t.Errorf("1, 2 and 3 prompts need %v bytes", need)
	}
	if _, err := cfg.EncodeBytes(1, MaxTokens+1); err == nil {
		t.Error("too many tokens gave no error")
	}
}
