package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// Conv is a 2D convolution over channels-last images.
type Conv struct {
	W kernels.Tensor // (Cout, Cin, K, K)
	B kernels.Tensor // (Cout)
}

// LoadConv reads "weight" (out, in, size, size) and "bias" (out).
func LoadConv(w *weights.Weights, in, out, size int) Conv {
	return Conv{W: w.Tensor("weight", out, in, size, size), B: w.Tensor("bias", out)}
}

// Into computes dst (N, H, W, Cout) = conv(x (N, H, W, Cin)) with "same" padding. residual has dst's shape and is added; it may
// be zero.
func (c Conv) Into(be kernels.Backend, dst, x, residual kernels.Tensor) {
	p := c.W.Dim(2) / 2
	be.Conv(dst, x, c.W, kernels.ConvSpec{
		Bias: c.B, Top: p, Left: p, Bottom: p, Right: p, Residual: residual,
	})
}

// Forward returns conv(x) with "same" padding: x (N, H, W, Cin) -> (N, H, W, Cout).
func (c Conv) Forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), c.W.Dim(0)) // (N, H, W, Cout)
	c.Into(be, y, x, kernels.Tensor{})
	return y
}

// UpsampleInto computes dst (N, 2H, 2W, Cout): x (N, H, W, Cin) enlarged by nearest neighbour, then the convolution.
func (c Conv) UpsampleInto(be kernels.Backend, dst, x kernels.Tensor) {
	be.Conv(dst, x, c.W, kernels.ConvSpec{Bias: c.B, Upsample: 2, Top: 1, Left: 1, Bottom: 1, Right: 1})
}

// DownsampleInto computes dst (N, H/2, W/2, Cout): x (N, H, W, Cin) with one zero row below and one zero column on the right,
// then the convolution with stride 2. Halves are rounded down.
func (c Conv) DownsampleInto(be kernels.Backend, dst, x kernels.Tensor) {
	be.Conv(dst, x, c.W, kernels.ConvSpec{Bias: c.B, Stride: 2, Bottom: 1, Right: 1})
}

// Strided returns conv(x) with a stride, padded by half the kernel on all sides: x (N, H, W, Cin) -> (N, ceil(H/stride),
// ceil(W/stride), Cout).
func (c Conv) Strided(be kernels.Backend, x kernels.Tensor, stride int) kernels.Tensor {
	p := c.W.Dim(2) / 2
	size := func(n int) int { return (n+2*p-c.W.Dim(2))/stride + 1 }
	y := be.Alloc(x.DType, x.Dim(0), size(x.Dim(1)), size(x.Dim(2)), c.W.Dim(0)) // (N, H', W', Cout)
	be.Conv(y, x, c.W, kernels.ConvSpec{Bias: c.B, Stride: stride, Top: p, Left: p, Bottom: p, Right: p})
	return y
}

// instanceEps is what torch.nn.InstanceNorm2d adds to a variance.
const instanceEps = 1e-5

// InstanceNorm normalises each channel of x (N, H, W, C) over its image in place. With relu it also applies ReLU.
func InstanceNorm(be kernels.Backend, x kernels.Tensor, relu bool) {
	spec := kernels.NormSpec{Kind: kernels.GroupNorm, Groups: x.Dim(3), Eps: instanceEps}
	if relu && be.Capabilities().ReLU {
		spec.Act, relu = kernels.ReLU, false
	}
	be.Norm(x, x, spec)
	if relu {
		ReLU(be, x)
	}
}

// GroupNorm normalises groups of channels over the whole image.
type GroupNorm struct {
	W, B   kernels.Tensor // (C)
	Groups int
	Eps    float32
}

// LoadGroupNorm reads "weight" (C) and "bias" (C).
func LoadGroupNorm(w *weights.Weights, c, groups int, eps float32) GroupNorm {
	return GroupNorm{W: w.Tensor("weight", c), B: w.Tensor("bias", c), Groups: groups, Eps: eps}
}

// Into computes dst = act(GN(x)); both are (N, H, W, C) and may be the same view.
func (g GroupNorm) Into(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp) {
	be.Norm(dst, x, kernels.NormSpec{
		Kind: kernels.GroupNorm, Eps: g.Eps, Groups: g.Groups, Weight: g.W, Bias: g.B, Act: act,
	})
}

// Forward returns act(GN(x)), of x's shape (N, H, W, C).
func (g GroupNorm) Forward(be kernels.Backend, x kernels.Tensor, act kernels.UnaryOp) kernels.Tensor {
	y := be.Alloc(x.DType, x.Shape...)
	g.Into(be, y, x, act)
	return y
}
