package host

import (
	"testing"

	"latentbeam/internal/engine/memory"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
)

// TestLargestFactCorrects: if there are two facts of one shape, such as of rows with and without guidance, only the larger one corrects the
// estimate.
func TestLargestFactCorrects(t *testing.T) {
	row := schemas.PromptRow{Width: 64, Height: 32, NumFrames: 16}
	shape := schemas.BucketOf(row).String()
	costs := []cost.Estimate{{Name: "denoise", Need: func(n int) (int64, error) { return int64(1000 * n), nil }}}
	useMeasured(costs, row, []memory.Fact{
		{Stage: "denoise", Shape: shape, Estimated: 100, Measured: 300},
		{Stage: "denoise", Shape: shape, Estimated: 100, Measured: 200},
		{Stage: "denoise", Shape: "another", Estimated: 100, Measured: 900},
		{Stage: "decode_vae", Shape: shape, Estimated: 100, Measured: 900},
	})
	if need, err := costs[0].Need(2); need != 6000 || err != nil {
		t.Errorf("two rows need %d, %v; want 6000", need, err)
	}
}
