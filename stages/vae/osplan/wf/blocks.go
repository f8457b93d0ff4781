package wf

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
)

// norm normalises the channels of each position.
type norm struct{ w, b kernels.Tensor } // (C)

func loadNorm(l stream.Loader, c int) norm {
	l = l.Sub("norm")
	return norm{l.Tensor("weight", c), l.Tensor("bias", c)}
}

func (n norm) Into(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp) {
	be.Norm(dst, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: 1e-6, Weight: n.w, Bias: n.b, Act: act})
}

// loadBlock reads ResnetBlock3D. If the number of channels changes, it has a 1x1x1 convolution on x.
func loadBlock(l stream.Loader, in, out int) stream.Block {
	b := stream.Block{
		Norm1: loadNorm(l.Sub("norm1"), in), Conv1: cube(l, "conv1", in, out, 1),
		Norm2: loadNorm(l.Sub("norm2"), out), Conv2: cube(l, "conv2", out, out, 1),
	}
	if in != out {
		conv := point(l, "nin_shortcut", in, out)
		b.Shortcut = func(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
			return conv.Forward(be, x, kernels.Identity)
		}
	}
	return b
}

// loadBlocks reads n blocks, named by numbers starting at first.
func loadBlocks(l stream.Loader, first, n, in, out int) (blocks []stream.Block) {
	for i := range n {
		blocks = append(blocks, loadBlock(l.Subf("%d", first+i), in, out))
		in = out
	}
	return blocks
}

// imageBlock is ResnetBlock2D, a block for single frames with a constant number of channels.
type imageBlock struct {
	norm1, norm2 norm
	conv1, conv2 stream.Frames
}

func loadImageBlocks(l stream.Loader, first, n, c int) (blocks []imageBlock) {
	for i := range n {
		at := l.Subf("%d", first+i)
		blocks = append(blocks, imageBlock{norm1: loadNorm(at.Sub("norm1"), c), conv1: at.Images("conv1", c, c),
			norm2: loadNorm(at.Sub("norm2"), c), conv2: at.Images("conv2", c, c)})
	}
	return blocks
}

func (b imageBlock) Forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	defer s.Scope()()
	h, between := s.Alloc(s.DType, x.Shape...), s.Alloc(s.DType, x.Shape...)
	b.norm1.Into(s, h, x, kernels.SiLU)
	s.Frames(b.conv1, between, h, kernels.Tensor{})
	b.norm2.Into(s, between, between, kernels.SiLU)
	s.Frames(b.conv2, x, between, x)
	return x
}

// attention is AttnBlock3DFix: one head over all positions of a frame.
type attention struct {
	norm          norm
	q, k, v, proj nn.Linear // (C, C)
}

func loadAttention(l stream.Loader, c int) attention {
	return attention{norm: loadNorm(l.Sub("norm"), c), q: point(l, "q", c, c), k: point(l, "k", c, c), v: point(l, "v", c, c),
		proj: point(l, "proj_out", c, c)}
}

func (a attention) Forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	defer s.Scope()()
	t, n, c := x.Dim(1), x.Dim(2)*x.Dim(3), x.Dim(4)
	h := s.Alloc(s.DType, x.Shape...) // (1, T, H, W, C)
	a.norm.Into(s, h, x, kernels.Identity)
	h = h.Reshape(t, n, c)
	heads := func(l nn.Linear) kernels.Tensor { return l.Forward(s, h, kernels.Identity).Reshape(t, n, 1, c) }
	q, k, v := heads(a.q), s.AllRows(heads(a.k), x.Dim(3)), s.AllRows(heads(a.v), x.Dim(3)) // keys of all rows
	mixed := s.Alloc(s.DType, t, n, 1, c)
	s.Attention(mixed, q, k, v, kernels.AttentionSpec{Scale: nn.AttentionScale(c)})
	a.proj.AddTo(s, x, mixed.Reshape(x.Shape...), kernels.Tensor{})
	return x
}

// loadMiddle reads "mid" of encoder or decoder: block, attention if attends, block.
func loadMiddle(l stream.Loader, in, between, out int, attends bool) (layers []stream.Layer) {
	layers = append(layers, loadBlock(l.Sub("0"), in, between))
	if attends {
		layers = append(layers, loadAttention(l.Sub("1"), between))
	}
	return append(layers, loadBlock(l.Subf("%d", len(layers)), between, out))
}

// joined concatenates the channels of x and y, both (1, T, H, W, C).
func joined(s *stream.Stream, x, y kernels.Tensor) kernels.Tensor {
	c := x.Dim(4)
	both := s.Alloc(s.DType, 1, x.Dim(1), x.Dim(2), x.Dim(3), c+y.Dim(4))
	s.Copy(both.Narrow(4, 0, c), x)
	s.Copy(both.Narrow(4, c, y.Dim(4)), y)
	return both
}

// channels copies n channels of x (1, T, H, W, C), starting at from.
func channels(s *stream.Stream, x kernels.Tensor, from, n int) kernels.Tensor {
	y := s.Alloc(s.DType, 1, x.Dim(1), x.Dim(2), x.Dim(3), n)
	s.Copy(y, x.Narrow(4, from, n))
	return y
}
