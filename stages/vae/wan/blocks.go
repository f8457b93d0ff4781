package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weight"
)

// norm divides the channels of each position by their root mean square and multiplies them by gamma. The reference
// divides by the L2 norm, at least 1e-12, and multiplies by the root of the number of channels, which is the same.
type norm struct{ gamma kernels.Tensor } // (C)

// loadNorm reads "gamma"; ones are the axes of length 1 that it has behind its channels.
func loadNorm(w *weight.Weights, c int, ones ...int) norm {
	gamma := w.Tensor("gamma", append([]int{c}, ones...)...)
	if gamma.IsZero() {
		return norm{}
	}
	return norm{gamma.Reshape(c)}
}

// into computes dst = act(norm(x)); both are (1, T, H, W, C) and may be the same view.
func (n norm) into(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp) {
	const least = 1e-12 // of the L2 norm
	be.Norm(dst, x, kernels.NormSpec{Kind: kernels.RMSNorm, Eps: least * least / float32(x.Dim(4)), Weight: n.gamma, Act: act})
}

// block is WanResidualBlock: x + conv2(silu(norm2(conv1(silu(norm1(x)))))), with a 1x1x1 convolution on x where the
// channels change.
type block struct {
	norm1, norm2 norm
	conv1, conv2 stream.Conv
	shortcut     *nn.CausalConv // conv_shortcut, nil where the channels stay
}

func loadBlock(l loader, in, out int) block {
	b := block{
		norm1: loadNorm(l.Sub("norm1"), in, 1, 1, 1), conv1: l.cube("conv1", in, out),
		norm2: loadNorm(l.Sub("norm2"), out, 1, 1, 1), conv2: l.cube("conv2", out, out),
	}
	if in != out {
		conv := nn.LoadCausalConv(l.Sub("conv_shortcut"), in, out, 1)
		b.shortcut = &conv
	}
	return b
}

func loadBlocks(l loader, in, out, n int) (blocks []block) {
	for i := range n {
		blocks = append(blocks, loadBlock(l.subf("resnets.%d", i), in, out))
		in = out
	}
	return blocks
}

// forward returns the block's output (1, T, H, W, Cout) for x (1, T, H, W, Cin): x itself, changed in place, where the
// channels stay.
func (b block) forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := x
	if b.shortcut != nil {
		y = b.shortcut.Forward(s, x) // (1, T, H, W, Cout)
	}
	defer s.Scope()()
	second, between := s.Input(b.conv2, t, h, w) // (1, T, H, W, Cout)
	first, fill := s.Input(b.conv1, t, h, w)     // (1, T, H, W, Cin)
	b.norm1.into(s, fill, x, kernels.SiLU)
	s.Convolve(b.conv1, between, first, kernels.Tensor{})
	b.norm2.into(s, between, between, kernels.SiLU)
	s.Convolve(b.conv2, y, second, y)
	return y
}

// attention is WanAttentionBlock: one head over all positions of a frame.
type attention struct {
	norm      norm
	qkv, proj nn.Linear // (3C, C), (C, C), stored as 1x1 convolutions
}

func loadAttention(w *weight.Weights, c int) attention {
	linear := func(name string, out int) nn.Linear {
		part := w.Sub(name)
		return nn.Linear{W: part.Pointwise("weight", out, c), B: part.Tensor("bias", out)}
	}
	return attention{norm: loadNorm(w.Sub("norm"), c, 1, 1), qkv: linear("to_qkv", 3*c), proj: linear("proj", c)}
}

// addTo adds the attention of x (1, T, H, W, C) to it, in place.
func (a attention) addTo(s *stream.Stream, x kernels.Tensor) {
	defer s.Scope()()
	t, n, c := x.Dim(1), x.Dim(2)*x.Dim(3), x.Dim(4)
	h := s.Alloc(s.DType, x.Shape...) // (1, T, H, W, C)
	a.norm.into(s, h, x, kernels.Identity)
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
	first, second block
	attention     attention
}

func loadMiddle(l loader, c int) middle {
	return middle{first: loadBlock(l.sub("resnets.0"), c, c), attention: loadAttention(l.Sub("attentions.0"), c),
		second: loadBlock(l.sub("resnets.1"), c, c)}
}

// forward returns the output for x, both (1, T, H, W, C).
func (m middle) forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	x = m.first.forward(s, x)
	m.attention.addTo(s, x)
	return m.second.forward(s, x)
}
