package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
)

// norm divides the channels of each position by their root mean square and multiplies them by gamma. The reference divides by
// the L2 norm, at least 1e-12, and multiplies by the root of the number of channels; the result is the same.
type norm struct{ gamma kernels.Tensor } // (C)

// loadNorm reads "gamma". ones are the axes of length 1 after its channels.
func loadNorm(l stream.Loader, c int, ones ...int) norm {
	gamma := l.Tensor("gamma", append([]int{c}, ones...)...)
	if gamma.IsZero() {
		return norm{}
	}
	return norm{gamma.Reshape(c)}
}

func (n norm) Into(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp) {
	const minNorm = 1e-12 // smallest L2 norm
	be.Norm(dst, x, kernels.NormSpec{Kind: kernels.RMSNorm, Eps: minNorm * minNorm / float32(x.Dim(4)), Weight: n.gamma, Act: act})
}

// cube reads a 3x3x3 convolution.
func cube(l stream.Loader, name string, in, out int) stream.Conv {
	return l.Sub(name).Conv(stream.Layout{Channels: in, Frames: 3, Size: 3}, out)
}

// frames reads a convolution over three frames at each position.
func frames(l stream.Loader, name string, in, out, stride int) *stream.Conv {
	conv := l.Sub(name).Conv(stream.Layout{Channels: in, Frames: 3, Size: 1, StrideT: stride}, out)
	return &conv
}

// loadBlock reads WanResidualBlock. If the number of channels changes, it has a 1x1x1 convolution on x.
func loadBlock(l stream.Loader, in, out int) stream.Block {
	b := stream.Block{
		Norm1: loadNorm(l.Sub("norm1"), in, 1, 1, 1), Conv1: cube(l, "conv1", in, out),
		Norm2: loadNorm(l.Sub("norm2"), out, 1, 1, 1), Conv2: cube(l, "conv2", out, out),
	}
	if in != out {
		b.Shortcut = nn.LoadCausalConv(l.Weights.Sub("conv_shortcut"), in, out, 1).Forward
	}
	return b
}

func loadBlocks(l stream.Loader, in, out, n int) (blocks []stream.Block) {
	for i := range n {
		blocks = append(blocks, loadBlock(l.Subf("resnets.%d", i), in, out))
		in = out
	}
	return blocks
}

// attention is WanAttentionBlock: one head over all positions of a frame.
type attention struct {
	norm      norm
	qkv, proj nn.Linear // (3C, C), (C, C), stored as 1x1 convolutions
}

func loadAttention(l stream.Loader, c int) attention {
	linear := func(name string, out int) nn.Linear {
		part := l.Sub(name)
		return nn.Linear{W: part.Pointwise("weight", out, c), B: part.Tensor("bias", out)}
	}
	return attention{norm: loadNorm(l.Sub("norm"), c, 1, 1), qkv: linear("to_qkv", 3*c), proj: linear("proj", c)}
}

// addTo adds the attention of x (1, T, H, W, C) to x, in place.
func (a attention) addTo(s *stream.Stream, x kernels.Tensor) {
	defer s.Scope()()
	t, n, c := x.Dim(1), x.Dim(2)*x.Dim(3), x.Dim(4)
	h := s.Alloc(s.DType, x.Shape...) // (1, T, H, W, C)
	a.norm.Into(s, h, x, kernels.Identity)
	qkv := a.qkv.Forward(s, h.Reshape(t, n, c), kernels.Identity).Reshape(t, n, 3, 1, c)
	kv := s.AllRows(qkv.Narrow(2, 1, 2), x.Dim(3))         // (T, N of all rows, 2, 1, C)
	part := func(x kernels.Tensor, i int) kernels.Tensor { // (T, N, 1, C)
		return x.Narrow(2, i, 1).Reshape(t, x.Dim(1), 1, c)
	}
	mixed := s.Alloc(s.DType, t, n, 1, c)
	s.Attention(mixed, part(qkv, 0), part(kv, 0), part(kv, 1), kernels.AttentionSpec{Scale: nn.AttentionScale(c)})
	a.proj.AddTo(s, x, mixed.Reshape(x.Shape...), kernels.Tensor{})
}

// middle is the mid_block of encoder and decoder: block, attention, block.
type middle struct {
	first, second stream.Block
	attention     attention
}

func loadMiddle(l stream.Loader, c int) middle {
	return middle{first: loadBlock(l.Sub("resnets.0"), c, c), attention: loadAttention(l.Sub("attentions.0"), c),
		second: loadBlock(l.Sub("resnets.1"), c, c)}
}

// forward returns the output for x, both (1, T, H, W, C).
func (m middle) forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	x = m.first.Forward(s, x)
	m.attention.addTo(s, x)
	return m.second.Forward(s, x)
}
