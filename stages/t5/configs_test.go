package t5

import (
	"encoding/json"
	"math"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
)

// TestOtherConfigsMatchTransformers: encoders with other buckets of relative attention, and with other functions in their
// feed-forward layers, match transformers.
func TestOtherConfigsMatchTransformers(t *testing.T) {
	for _, name := range []string{"umt5_64_buckets", "t5_gated_silu", "t5_relu", "t5_gated_relu", "umt5_dense_act_relu",
		"t5_dense_act_gelu", "t5_quick_gelu"} {
		var c struct {
			Config json.RawMessage
			IDs    []int32
			Stride int
			Out    []float32
		}
		nntest.Decode(t, nntest.Golden(t, golden+"t5-configs.json")[name], &c)
		cfg, err := ParseConfig(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		be := cpu.New(2)
		rows, err := hashed(t, cfg, be).Encode(be, [][]int32{c.IDs})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, rows[0].Len())
		if err := be.Download(got, rows[0]); err != nil {
			t.Fatal(err)
		}
		if len(c.Out) != (len(got)+c.Stride-1)/c.Stride {
			t.Fatalf("%s: %d values, the golden file has %d", name, len(got), len(c.Out))
		}
		worst := 0.0
		for i, want := range c.Out {
			worst = max(worst, math.Abs(float64(got[i*c.Stride]-want)))
		}
		t.Logf("%s: largest difference %.1e", name, worst)
		if !(worst < 2e-5) {
			t.Errorf("%s: largest difference %.1e", name, worst)
		}
	}
}

// TestBucketsMatchTransformers: every distance has the bucket that transformers gives it, whatever the configuration.
func TestBucketsMatchTransformers(t *testing.T) {
	var cases []struct {
		Num, Distance int
		First         []int
	}
	nntest.Decode(t, nntest.Golden(t, golden+"t5-configs.json")["buckets"], &cases)
	for _, c := range cases {
		cfg := Config{NumBuckets: c.Num, MaxDistance: c.Distance}
		want := 0
		for r := range 4096 {
			for b := want; b < len(c.First); b++ { // some buckets have no distance
				if c.First[b] == r {
					want = b
				}
			}
			if got := cfg.bucket(-r); int(got) != want {
				t.Fatalf("%d buckets up to %d: distance %d is in bucket %d, want %d", c.Num, c.Distance, r, got, want)
			}
			if got := cfg.bucket(r); r > 0 && int(got) != want+c.Num/2 {
				t.Fatalf("%d buckets up to %d: key %d behind is in bucket %d, want %d", c.Num, c.Distance, r, got, want+c.Num/2)
			}
		}
	}
}
