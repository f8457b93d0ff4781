package t5

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// EncodeBytes returns the device memory that Encode needs for n prompts of the given number of tokens,
// with the output but without the weights.
func (c Config) EncodeBytes(n, tokens int) (int64, error) {
	e, err := Load(c, nn.ShapesOnly())
	if err != nil {
		return 0, err
	}
	ids := make([][]int32, n)
	for i := range ids {
		ids[i] = make([]int32, tokens)
	}
	return nn.PeakBytes(func(be kernels.Backend) error {
		_, err := e.Encode(be, ids)
		return err
	})
}
