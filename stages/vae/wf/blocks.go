package wf

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weight"
)

// norm normalises the channels of each position.
type norm struct{ w, b kernels.Tensor } // (C)

func loadNorm(w *weight.Weights, c int) norm {
	w = w.Sub("norm")
	return norm{w.Tensor("weight", c), w.Tensor("bias", c)}
}

// into computes dst = act(norm(x)); both are (1, T, H, W, C) and may be the same view.
func (n norm) into(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp) {
	be.Norm(dst, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: 1e-6, Weight: n.w, Bias: n.b, Act: act})
}

// layer makes x (1, T, H, W, C) into what the next one takes: x itself, changed in place, or a tensor of its own.
type layer interface {
	forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor
}

// through gives x to layers, one after the other.
func through[L layer](s *stream.Stream, layers []L, x kernels.Tensor) kernels.Tensor {
	for _, l := range layers {
		x = l.forward(s, x)
	}
	return x
}

// block is ResnetBlock3D: x + conv2(silu(norm2(conv1(silu(norm1(x)))))), with a 1x1x1 convolution on x where the
// channels change.
type block struct {
	norm1, norm2 norm
	conv1, conv2 stream.Conv
	shortcut     *nn.Linear // nin_shortcut, nil where the channels stay
}

func loadBlock(l loader, in, out int) block {
	b := block{
		norm1: loadNorm(l.Sub("norm1"), in), conv1: l.cube("conv1", in, out, 1),
		norm2: loadNorm(l.Sub("norm2"), out), conv2: l.cube("conv2", out, out, 1),
	}
	if in != out {
		conv := l.point("nin_shortcut", in, out)
		b.shortcut = &conv
	}
	return b
}

// loadBlocks reads n blocks named by numbers from first on.
func loadBlocks(l loader, first, n, in, out int) (blocks []block) {
	for i := range n {
		blocks = append(blocks, loadBlock(l.subf("%d", first+i), in, out))
		in = out
	}
	return blocks
}

func (b block) forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := x
	if b.shortcut != nil {
		y = b.shortcut.Forward(s, x, kernels.Identity) // (1, T, H, W, Cout)
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

// imageBlock is ResnetBlock2D, a block of single frames whose channels stay.
type imageBlock struct {
	norm1, norm2 norm
	conv1, conv2 stream.Frames
}

func loadImageBlocks(l loader, first, n, c int) (blocks []imageBlock) {
	for i := range n {
		at := l.subf("%d", first+i)
		blocks = append(blocks, imageBlock{norm1: loadNorm(at.Sub("norm1"), c), conv1: at.images("conv1", c, c),
			norm2: loadNorm(at.Sub("norm2"), c), conv2: at.images("conv2", c, c)})
	}
	return blocks
}

func (b imageBlock) forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	defer s.Scope()()
	h, between := s.Alloc(s.DType, x.Shape...), s.Alloc(s.DType, x.Shape...)
	b.norm1.into(s, h, x, kernels.SiLU)
	s.Frames(b.conv1, between, h, kernels.Tensor{})
	b.norm2.into(s, between, between, kernels.SiLU)
	s.Frames(b.conv2, x, between, x)
	return x
}

// attention is AttnBlock3DFix: one head over all positions of a frame.
type attention struct {
	norm          norm
	q, k, v, proj nn.Linear // (C, C)
}

func loadAttention(l loader, c int) attention {
	return attention{norm: loadNorm(l.Sub("norm"), c), q: l.point("q", c, c), k: l.point("k", c, c), v: l.point("v", c, c),
		proj: l.point("proj_out", c, c)}
}

func (a attention) forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	defer s.Scope()()
	t, n, c := x.Dim(1), x.Dim(2)*x.Dim(3), x.Dim(4)
	h := s.Alloc(s.DType, x.Shape...) // (1, T, H, W, C)
	a.norm.into(s, h, x, kernels.Identity)
	h = h.Reshape(t, n, c)
	heads := func(l nn.Linear) kernels.Tensor { return l.Forward(s, h, kernels.Identity).Reshape(t, n, 1, c) }
	q, k, v := heads(a.q), s.AllRows(heads(a.k), x.Dim(3)), s.AllRows(heads(a.v), x.Dim(3)) // keys of all rows
	mixed := s.Alloc(s.DType, t, n, 1, c)
	s.Attention(mixed, q, k, v, kernels.AttentionSpec{Scale: nn.AttentionScale(c)})
	a.proj.AddTo(s, x, mixed.Reshape(x.Shape...), kernels.Tensor{})
	return x
}

// middle is "mid" of encoder and decoder: block, attention where there is one, block.
func loadMiddle(l loader, in, between, out int, attends bool) (layers []layer) {
	layers = append(layers, loadBlock(l.sub("0"), in, between))
	if attends {
		layers = append(layers, loadAttention(l.sub("1"), between))
	}
	return append(layers, loadBlock(l.subf("%d", len(layers)), between, out))
}

// joined returns the channels of x and of y, both (1, T, H, W, C), behind each other.
func joined(s *stream.Stream, x, y kernels.Tensor) kernels.Tensor {
	c := x.Dim(4)
	both := s.Alloc(s.DType, 1, x.Dim(1), x.Dim(2), x.Dim(3), c+y.Dim(4))
	s.Copy(both.Narrow(4, 0, c), x)
	s.Copy(both.Narrow(4, c, y.Dim(4)), y)
	return both
}

// channels returns n channels of x (1, T, H, W, C) from the given one on, as a tensor of their own.
func channels(s *stream.Stream, x kernels.Tensor, from, n int) kernels.Tensor {
	y := s.Alloc(s.DType, 1, x.Dim(1), x.Dim(2), x.Dim(3), n)
	s.Copy(y, x.Narrow(4, from, n))
	return y
}
