package vae

import (
	"math"
	"testing"
)

// The work of an autoencoder is that of its frames, whatever the micro batch.
func TestWork(t *testing.T) {
	c, err := ParseConfig([]byte(`{"block_out_channels": [32, 64], "norm_num_groups": 8, "layers_per_block": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, work := range map[string]func(frames, height, width, micro int) (float64, int64, error){
		"decode": c.DecodeWork, "encode": c.EncodeWork} {
		one, calls, err := work(1, 64, 64, 4)
		if err != nil || one <= 0 || calls <= 0 {
			t.Fatalf("%s: %g FLOP in %d calls, %v", name, one, calls, err)
		}
		for _, micro := range []int{1, 3, 8} {
			if eight, _, err := work(8, 64, 64, micro); err != nil || math.Abs(eight-8*one) > 1e-6*eight {
				t.Errorf("%s: 8 frames, %d at a time: %g FLOP, %v, want %g", name, micro, eight, err, 8*one)
			}
		}
		if wide, _, _ := work(1, 64, 128, 4); wide < 2*one {
			t.Errorf("%s: twice the width: %g FLOP, one width %g", name, wide, one)
		}
	}
}
