package kerneltest

import (
	"fmt"
	"math"
	"slices"

	"latentbeam/kernels"
)

// Card wraps inner as a device with its own memory of the given size for weights, which can be replaced (kernels.Refiller). The
// content of a weight is NaN until its replacement is ready.
func Card(inner kernels.Backend, memory int64) *CardBackend {
	return &CardBackend{Backend: inner, memory: memory}
}

// CardBackend is what Card returns.
type CardBackend struct {
	kernels.Backend
	memory      int64
	copies      map[any][]byte // copies of the weights, by inner's buffer
	WeightBytes int64          // bytes of weights on the card
	Refills     int
}

// Device returns the name of the card's own memory.
func (c *CardBackend) Device() string { return fmt.Sprintf("card %p", c) }

// Capabilities returns a Refiller and the operations that inner supports, no other capabilities of inner.
func (c *CardBackend) Capabilities() kernels.Capabilities {
	return kernels.Capabilities{Refiller: c, ReLU: c.Backend.Capabilities().ReLU, Int8: c.Backend.Capabilities().Int8}
}

// Weights copies data to the card.
func (c *CardBackend) Weights(dt kernels.DType, shape []int, data []byte) (kernels.Tensor, error) {
	if c.WeightBytes += int64(len(data)); c.WeightBytes > c.memory {
		return kernels.Tensor{}, fmt.Errorf("card: %d bytes of weights, there is room for %d", c.WeightBytes, c.memory)
	}
	own := slices.Clone(data)
	t, err := c.Backend.Weights(dt, shape, own)
	if passing := c.Backend.Capabilities().Passing; passing != nil && err == nil {
		passing(t) // inner must not cache anything for it
	}
	if c.copies == nil {
		c.copies = map[any][]byte{}
	}
	c.copies[t.Buf] = own
	return t, err
}

// Refill replaces the content of a weight.
func (c *CardBackend) Refill(t kernels.Tensor, data func() []byte) (ready func()) {
	c.Refills++
	own := c.copies[t.Buf]
	if t.Offset != 0 {
		panic("card: a part of a weight is refilled")
	}
	nan := math.Float32bits(float32(math.NaN())) | 0x7fc0 // these bits are NaN as one fp32, as two bf16 and as two fp16
	for i := range own {
		own[i] = byte(nan >> (8 * (i % 4)))
	}
	return func() {
		if n := copy(own, data()); n != len(own) {
			panic(fmt.Sprintf("card: %d bytes for a weight of %d", n, len(own)))
		}
	}
}
