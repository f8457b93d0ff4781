package t5

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// EncodeBytes returns the device memory that Encode needs for n prompts of the given number of tokens,
// with the output but without the weights.
func (c Config) EncodeBytes(n, tokens int) (int64, error) {
	encode, err := c.encoding(n, tokens)
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(encode)
}

// encoding is Encode on shapes alone.
func (c Config) encoding(n, tokens int) (func(be kernels.Backend) error, error) {
	e, err := Load(c, weights.ShapesOnly())
	if err != nil {
		return nil, err
	}
	ids := make([][]int32, n)
	for i := range ids {
		ids[i] = make([]int32, tokens)
	}
	return func(be kernels.Backend) error {
		_, err := e.Encode(be, ids)
		return err
	}, nil
}
