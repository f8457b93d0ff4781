package vae

import (
	"math"
	"testing"
)

// The work of a decoder is that of its frames, whatever the micro batch.
func TestDecodeWork(t *testing.T) {
	c, err := ParseConfig([]byte(`{"block_out_channels": [32, 64], "norm_num_groups": 8, "layers_per_block": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	one, err := c.decodeWork(1, 64, 64, 4)
	if err != nil || one <= 0 {
		t.Fatalf("%g FLOP, %v", one, err)
	}
	for _, micro := range []int{1, 3, 8} {
		if eight, err := c.decodeWork(8, 64, 64, micro); err != nil || math.Abs(eight-8*one) > 1e-6*eight {
			t.Errorf("8 frames, %d at a time: %g FLOP, %v, want %g", micro, eight, err, 8*one)
		}
	}
	if wide, _ := c.decodeWork(1, 64, 128, 4); wide < 2*one {
		t.Errorf("twice the width: %g FLOP, one width %g", wide, one)
	}
}
