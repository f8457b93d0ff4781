package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// CausalConv is a convolution over channels-last videos that sees only the current and earlier frames: "same" padding with
// zeros in height and width, zero frames before the first frame.
type CausalConv struct {
	W kernels.Tensor // (Cout, Cin, K, K, K)
	B kernels.Tensor // (Cout), or none
}

// LoadCausalConv reads "weight" (out, in, size, size, size) and "bias" (out).
func LoadCausalConv(w *weights.Weights, in, out, size int) CausalConv {
	return CausalConv{W: w.Tensor("weight", out, in, size, size, size), B: w.Tensor("bias", out)}
}

// LoadCausalConvNoBias reads only "weight" (out, in, size, size, size).
func LoadCausalConvNoBias(w *weights.Weights, in, out, size int) CausalConv {
	return CausalConv{W: w.Tensor("weight", out, in, size, size, size)}
}

// Into computes dst (N, T, H, W, Cout) = conv(x (N, T, H, W, Cin)) with K-1 zero frames before x. residual has dst's shape and
// is added; it may be zero.
func (c CausalConv) Into(be kernels.Backend, dst, x, residual kernels.Tensor) {
	spec := c.spec()
	spec.Residual = residual
	be.Conv(dst, x, c.W, spec)
}

// Forward returns conv(x), of x's type: x (N, T, H, W, Cin) -> (N, T, H, W, Cout).
func (c CausalConv) Forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3), c.W.Dim(0)) // (N, T, H, W, Cout)
	c.Into(be, y, x, kernels.Tensor{})
	return y
}

// Halve returns conv(x) with stride 2 in time, after front zero frames, and if space is set with stride 2 in height and width:
// x (N, T, H, W, Cin) -> (N, (T+front-K)/2+1, H or ceil(H/2), W or ceil(W/2), Cout).
func (c CausalConv) Halve(be kernels.Backend, x kernels.Tensor, front int, space bool) kernels.Tensor {
	spec := c.spec()
	spec.StrideT, spec.Front = 2, front
	height, width := x.Dim(2), x.Dim(3)
	if space {
		spec.Stride, height, width = 2, (height+1)/2, (width+1)/2
	}
	frames := (x.Dim(1)+front-c.W.Dim(2))/2 + 1
	y := be.Alloc(x.DType, x.Dim(0), frames, height, width, c.W.Dim(0)) // (N, T', H', W', Cout)
	be.Conv(y, x, c.W, spec)
	return y
}

func (c CausalConv) spec() kernels.ConvSpec {
	p := c.W.Dim(2) / 2
	return kernels.ConvSpec{Bias: c.B, Front: c.W.Dim(2) - 1, Top: p, Left: p, Bottom: p, Right: p}
}

// VideoInto computes dst = act(GN(x)) with the statistics of each group over all frames. Both are (N, T, H, W, C), dense, and
// may be the same view.
func (g GroupNorm) VideoInto(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp) {
	g.Into(be, tall(dst), tall(x), act)
}

// VideoForward returns act(GN(x)), of x's shape (N, T, H, W, C) and type.
func (g GroupNorm) VideoForward(be kernels.Backend, x kernels.Tensor, act kernels.UnaryOp) kernels.Tensor {
	y := be.Alloc(x.DType, x.Shape...)
	g.VideoInto(be, y, x, act)
	return y
}

// tall views a video (N, T, H, W, C) as an image (N, T H, W, C), one frame below the other.
func tall(x kernels.Tensor) kernels.Tensor {
	return x.Reshape(x.Dim(0), x.Dim(1)*x.Dim(2), x.Dim(3), x.Dim(4))
}
