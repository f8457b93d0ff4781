package nn_test

import (
	"context"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// TestMutants adds known mistakes to sequence parallelism and checks that the comparison with one rank finds each of them: a
// test of the tests above.
func TestMutants(t *testing.T) {
	right := sharedCase{
		shape:  sequence.Shape{Batch: 1, Frames: 6, Positions: 13, Heads: 4, HeadSize: 4, QueryTile: 1},
		speeds: sequence.Equal(3), rope: true,
	}
	padded := right
	padded.partition = sequence.Pad
	copied, byHeads := right, right // one frame, of which two ranks have the tokens, four queries, keys and values
	copied.shape.Frames, copied.speeds = 1, sequence.Equal(2)
	byHeads.shape.Frames, byHeads.speeds = 1, sequence.Equal(4)
	for name, c := range map[string]sharedCase{"padded keys are not masked": with(padded, func(c *sharedCase) {
		c.wrapBackend = func(be kernels.Backend) kernels.Backend { return unmasked{be} }
	}), "heads in another order": with(right, func(c *sharedCase) {
		c.wrapTransport = func(tr kernels.Transport) kernels.Transport { return mistaken{tr, c.swapHeads} }
	}), "the reference's gather axis": with(right, func(c *sharedCase) {
		c.wrapTransport = func(tr kernels.Transport) kernels.Transport { return mistaken{tr, mixFrames} }
	}), "local positions": with(right, func(c *sharedCase) { c.wrapRope = localRope }),
		"local positions of a frame that is copied": with(copied, func(c *sharedCase) { c.wrapRope = localRope }),
		"local positions of a frame by heads":       with(byHeads, func(c *sharedCase) { c.wrapRope = localRope })} {
		want := c.alone(t)
		if got, _ := c.shared(t); differences(got, want) == 0 {
			t.Errorf("%s: the result is right all the same", name)
		}
	}
	for _, c := range []sharedCase{right, padded, copied, byHeads} {
		c.check(t)
	}
}

func with(c sharedCase, change func(c *sharedCase)) sharedCase {
	change(&c)
	return c
}

// unmasked forgets how many keys are valid.
type unmasked struct{ kernels.Backend }

func (u unmasked) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	spec.KeyLens = nil
	u.Backend.Attention(dst, q, k, v, spec)
}

// mistaken sends something else.
type mistaken struct {
	kernels.Transport
	change func(rank int, op string, send []kernels.Part)
}

func (m mistaken) Exchange(ctx context.Context, be kernels.Backend, tag kernels.Tag,
	send, recv []kernels.Part) error {
	m.change(m.Rank(), tag.Op, send)
	return m.Transport.Exchange(ctx, be, tag, send, recv)
}

// swapHeads sends the results of whole frames with the heads, and their channels, in reverse.
func (c sharedCase) swapHeads(_ int, op string, send []kernels.Part) {
	for i, p := range send {
		if x := p.View; op == "space out" && len(x.Shape) == 3 && x.Dim(2) == c.shape.Width() {
			x.Offset += (x.Dim(2) - 1) * x.Strides[2]
			x.Strides = []int{x.Strides[0], x.Strides[1], -x.Strides[2]}
			send[i].View = x
		}
	}
}

// mixFrames gathers along the axis of the patches after a split along the frames, as Open-Sora 1.0 does: a sequence
// takes its patches from other frames, depending on the rank they come from.
func mixFrames(rank int, op string, send []kernels.Part) {
	for i, p := range send {
		if x := p.View; op == "space in" && rank > 0 && len(x.Shape) == 3 && x.Dim(0) > 1 {
			x.Offset += (x.Dim(0) - 1) * x.Strides[0]
			x.Strides = append([]int{-x.Strides[0]}, x.Strides[1:]...)
			send[i].View = x
		}
	}
}

// localRope counts positions from the rank's first column, so that every rank turns its patches by another
// angle.
func localRope(s *nn.Split, rope nn.Rope) nn.Rope {
	start := 0
	for _, p := range s.Parts() {
		start = max(start, p.Patches.Start)
	}
	shift := func(x kernels.Tensor) kernels.Tensor { // all patches at the angle of the first one
		return x.Narrow(2, start, 1).Expand(x.Shape...)
	}
	return nn.Rope{Cos: shift(rope.Cos), Sin: shift(rope.Sin)}
}
