package v13

import (
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// The epsilons of GroupNorm in Open-Sora 1.3's autoencoder. The enlarging blocks use PyTorch's default.
const (
	normEps        = 1e-6
	enlargeNormEps = 1e-5
)

// normSwish computes n sigmoid(n), n being the norm of x (1, T, H, W, C), into dst, which may be x. It rounds both factors
// separately as the reference does; the difference is visible in 16-bit types.
func normSwish(be kernels.Backend, dst, x kernels.Tensor, norm nn.GroupNorm) {
	if dst.DType == kernels.F32 {
		norm.VideoInto(be, dst, x, kernels.SiLU)
		return
	}
	norm.VideoInto(be, dst, x, kernels.Identity)
	defer be.Scope()()
	var factor kernels.Tensor // (1, 1, H, W, C)
	for t := range dst.Dim(1) {
		frame := dst.Narrow(1, t, 1) // (1, 1, H, W, C)
		if t == 0 {
			factor = be.Alloc(dst.DType, frame.Shape...)
		}
		be.Unary(factor, frame, kernels.Sigmoid)
		be.Binary(frame, frame, factor, kernels.Mul)
	}
}

// block is Resnet3DBlock: x + conv2(silu(norm2(conv1(silu(norm1(x)))))). If the number of channels changes, x passes a 1x1x1
// convolution.
type block struct {
	norm1, norm2 nn.GroupNorm
	conv1, conv2 nn.CausalConv  // (C, C, 3, 3, 3)
	shortcut     *nn.CausalConv // nin_shortcut (Cout, Cin, 1, 1, 1); nil if the number of channels stays
}

func loadBlock(w *weights.Weights, in, out int) block {
	b := block{
		norm1: nn.LoadGroupNorm(w.Sub("norm1"), in, groups, normEps),
		conv1: nn.LoadCausalConv(w.Sub("conv1.conv"), in, out, 3),
		norm2: nn.LoadGroupNorm(w.Sub("norm2"), out, groups, normEps),
		conv2: nn.LoadCausalConv(w.Sub("conv2.conv"), out, out, 3),
	}
	if in != out {
		conv := nn.LoadCausalConv(w.Sub("nin_shortcut.conv"), in, out, 1)
		b.shortcut = &conv
	}
	return b
}

// forward returns the block's output (1, T, H, W, Cout) for x (1, T, H, W, Cin). If the number of channels stays, it modifies x
// in place and returns it.
func (b block) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := x
	if b.shortcut != nil {
		y = b.shortcut.Forward(be, x) // (1, T, H, W, Cout)
	}
	defer be.Scope()()
	h := be.Alloc(x.DType, x.Shape...) // (1, T, H, W, Cin)
	normSwish(be, h, x, b.norm1)
	h = b.conv1.Forward(be, h) // (1, T, H, W, Cout)
	normSwish(be, h, h, b.norm2)
	b.conv2.Into(be, y, h, y)
	return y
}

// attention is AttnBlock: a single head over all positions of a group of frames. Each position attends to itself and to the
// positions before it in the order (t, h, w).
type attention struct {
	norm         nn.GroupNorm
	q, k, v, out nn.CausalConv // (C, C, 1, 1, 1)
}

func loadAttention(w *weights.Weights, c int) attention {
	conv := func(name string) nn.CausalConv { return nn.LoadCausalConv(w.Sub(name+".conv"), c, c, 1) }
	return attention{norm: nn.LoadGroupNorm(w.Sub("norm"), c, groups, normEps),
		q: conv("q"), k: conv("k"), v: conv("v"), out: conv("proj_out")}
}

// addTo adds the attention of x (1, T, H, W, C) to x, in place.
func (a attention) addTo(be kernels.Backend, x kernels.Tensor) {
	defer be.Scope()()
	c := x.Dim(4)
	n := x.Len() / c
	h := a.norm.VideoForward(be, x, kernels.Identity)   // (1, T, H, W, C)
	tokens := func(conv nn.CausalConv) kernels.Tensor { // (1, T H W, 1, C)
		return conv.Forward(be, h).Reshape(1, n, 1, c)
	}
	mixed := be.Alloc(x.DType, 1, n, 1, c) // (1, T H W, 1, C)
	attendBefore(be, mixed, tokens(a.q), tokens(a.k), tokens(a.v))
	a.out.Into(be, x, mixed.Reshape(x.Shape...), x)
}

// maskedQueries is the number of positions whose attention is computed together.
const maskedQueries = 64

// attendBefore computes dst, the attention of each position of q to itself and the positions before it in k and v; all are (1,
// N, 1, C). A block of positions attends to keys up to its own end. Keys after a position get a bias of minus infinity, and so
// no weight.
func attendBefore(be kernels.Backend, dst, q, k, v kernels.Tensor) {
	defer be.Scope()()
	n := q.Dim(1)
	mask := causalMask(be, n) // (1, m, N)
	for first := 0; first < n; first += maskedQueries {
		m := min(maskedQueries, n-first)
		spec := kernels.AttentionSpec{Scale: nn.AttentionScale(q.Dim(3)), // zeros before the triangle
			Bias: mask.Narrow(1, 0, m).Narrow(2, mask.Dim(2)-maskedQueries-first, first+m)}
		be.Attention(dst.Narrow(1, first, m), q.Narrow(1, first, m), k.Narrow(1, 0, first+m),
			v.Narrow(1, 0, first+m), spec)
	}
}

// causalMask returns the bias (1, m, N) for a block of m queries on the N >= n keys up to the block's end: zeros, except for
// the triangle of keys after each query.
func causalMask(be kernels.Backend, n int) kernels.Tensor {
	const m = maskedQueries
	keys := (n + m - 1) / m * m
	values := make([]float32, m*keys)
	for i := range m {
		for j := i + 1; j < m; j++ {
			values[i*keys+keys-m+j] = float32(math.Inf(-1))
		}
	}
	mask := be.Alloc(kernels.F32, 1, m, keys) // (1, m, N)
	be.Upload(mask, values)
	return mask
}

// mid is "mid" of encoder and decoder: block, attention, block.
type mid struct {
	first, second block
	attention     attention
}

func loadMid(w *weights.Weights, c int) mid {
	return mid{
		first:     loadBlock(w.Sub("block_1"), c, c),
		attention: loadAttention(w.Sub("attn_1"), c),
		second:    loadBlock(w.Sub("block_2"), c, c),
	}
}

// forward returns the output for x, both (1, T, H, W, C).
func (m mid) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	x = m.first.forward(be, x)
	m.attention.addTo(be, x)
	return m.second.forward(be, x)
}

// enlarge is Upsample3D: u + silu(norm2(conv2(silu(norm1(conv1(u))))) + u), u being x enlarged twice in time, height and width
// by nearest neighbour.
type enlarge struct {
	conv1, conv2 nn.CausalConv // conv3d.conv1, conv3d.conv2 (C, C, 3, 3, 3)
	norm1, norm2 nn.GroupNorm  // conv3d.norm1, conv3d.norm2
}

func loadEnlarge(w *weights.Weights, c int) *enlarge {
	w = w.Sub("conv3d")
	return &enlarge{
		conv1: nn.LoadCausalConv(w.Sub("conv1.conv"), c, c, 3),
		conv2: nn.LoadCausalConv(w.Sub("conv2.conv"), c, c, 3),
		norm1: nn.LoadGroupNorm(w.Sub("norm1"), c, groups, enlargeNormEps),
		norm2: nn.LoadGroupNorm(w.Sub("norm2"), c, groups, enlargeNormEps),
	}
}

// forward returns (1, 2T, 2H, 2W, C) for x (1, T, H, W, C).
func (e enlarge) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	n, t, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3), x.Dim(4)
	u := be.Alloc(x.DType, n, t, 2, h, 2, w, 2, c)
	be.Copy(u, x.Reshape(n, t, 1, h, 1, w, 1, c).Expand(u.Shape...))
	u = u.Reshape(n, 2*t, 2*h, 2*w, c) // (1, 2T, 2H, 2W, C)
	defer be.Scope()()
	y := e.conv1.Forward(be, u) // (1, 2T, 2H, 2W, C)
	e.norm1.VideoInto(be, y, y, kernels.SiLU)
	y = e.conv2.Forward(be, y) // (1, 2T, 2H, 2W, C)
	e.norm2.VideoInto(be, y, y, kernels.Identity)
	be.Binary(y, y, u, kernels.Add)
	be.Unary(y, y, kernels.SiLU)
	be.Binary(u, u, y, kernels.Add)
	return u
}
