package vae

import (
	"math"
	"testing"

	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
)

// The work of an autoencoder is that of its frames, whatever the micro batch.
func TestWork(t *testing.T) {
	c, err := ParseConfig([]byte(`{"block_out_channels": [32, 64], "norm_num_groups": 8, "layers_per_block": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, work := range map[string]func(frames, height, width, micro int, known *nn.Rehearsals) (cost.Kernels, error){
		"decode": c.DecodeWork, "encode": c.EncodeWork} {
		var known nn.Rehearsals
		frame, err := work(1, 64, 64, 4, &known)
		one := frame.Work()
		if err != nil || one <= 0 || frame.Calls <= 0 {
			t.Fatalf("%s: %+v, %v", name, frame, err)
		}
		for _, micro := range []int{1, 3, 8} {
			all, err := work(8, 64, 64, micro, &known)
			if eight := all.Work(); err != nil || math.Abs(eight-8*one) > 1e-6*eight {
				t.Errorf("%s: 8 frames, %d at a time: %g FLOP, %v, want %g", name, micro, eight, err, 8*one)
			}
		}
		if wide, _ := work(1, 64, 128, 4, &known); wide.Work() < 2*one {
			t.Errorf("%s: twice the width: %g FLOP, one width %g", name, wide.Work(), one)
		}
	}
}
