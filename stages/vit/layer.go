package vit

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Layer is a pre-norm transformer layer: attention, then a two-layer perceptron, each added to its input.
type Layer struct {
	Norm1, Norm2  Norm
	Q, K, V, Out  nn.Linear // (C, C)
	First, Second nn.Linear // (hidden, C), (C, hidden)
	Heads         int
	Act           func(kernels.Backend, kernels.Tensor) // between First and Second, in place
}

// Norm is a LayerNorm with weight and bias (C).
type Norm struct {
	W, B kernels.Tensor
	Eps  float32
}

// LoadNorm reads "weight" and "bias" (c).
func LoadNorm(w *weights.Weights, c int, eps float64) Norm {
	return Norm{w.Tensor("weight", c), w.Tensor("bias", c), float32(eps)}
}

// Into normalises x (..., C) into y, which may be x.
func (n Norm) Into(be kernels.Backend, y, x kernels.Tensor) {
	be.Norm(y, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: n.Eps, Weight: n.W, Bias: n.B})
}

// Fused returns the queries, keys and values from one weight (3C, C) with bias (3C), in this order.
func Fused(weight, bias kernels.Tensor) (q, k, v nn.Linear) {
	if weight.IsZero() || bias.IsZero() {
		return q, k, v
	}
	c := weight.Dim(1)
	part := func(i int) nn.Linear { return nn.Linear{W: weight.Narrow(0, i*c, c), B: bias.Narrow(0, i*c, c)} }
	return part(0), part(1), part(2)
}

// Forward runs the layer on the tokens x (B, N, C), in place. bias (heads, N, N), which may be zero, is added to the scores.
func (l Layer) Forward(be kernels.Backend, x, bias kernels.Tensor) {
	defer be.Scope()()
	y := be.Alloc(x.DType, x.Shape...)
	l.Norm1.Into(be, y, x)
	l.Out.AddTo(be, x, l.attend(be, y, y, bias), kernels.Tensor{})
	l.Norm2.Into(be, y, x)
	l.addMLP(be, x, y)
}

// Token returns Forward's result for one token of each entry of x (B, N, C): (B, 1, C), in the scope open at the call. It is
// much cheaper than Forward and is used in the last layer, whose other tokens are not needed. It does not modify x.
func (l Layer) Token(be kernels.Backend, x kernels.Tensor, token int) kernels.Tensor {
	one := be.Alloc(x.DType, x.Dim(0), 1, x.Dim(2))
	be.Copy(one, x.Narrow(1, token, 1))
	defer be.Scope()()
	y, own := be.Alloc(x.DType, x.Shape...), be.Alloc(x.DType, one.Shape...)
	l.Norm1.Into(be, y, x)
	be.Copy(own, y.Narrow(1, token, 1))
	l.Out.AddTo(be, one, l.attend(be, own, y, kernels.Tensor{}), kernels.Tensor{})
	l.Norm2.Into(be, own, one)
	l.addMLP(be, one, own)
	return one
}

// attend returns the attention of the tokens y (B, M, C) to all tokens (B, N, C).
func (l Layer) attend(be kernels.Backend, y, all, bias kernels.Tensor) kernels.Tensor {
	heads := func(of nn.Linear, x kernels.Tensor) kernels.Tensor {
		return of.Forward(be, x, kernels.Identity).Reshape(x.Dim(0), x.Dim(1), l.Heads, x.Dim(2)/l.Heads)
	}
	q, k, v := heads(l.Q, y), heads(l.K, all), heads(l.V, all)
	out := be.Alloc(y.DType, q.Shape...)
	be.Attention(out, q, k, v, kernels.AttentionSpec{Scale: nn.AttentionScale(q.Dim(3)), Bias: bias})
	return out.Reshape(y.Shape...)
}

// addMLP adds the perceptron of the tokens y to x.
func (l Layer) addMLP(be kernels.Backend, x, y kernels.Tensor) {
	h := l.First.Forward(be, y, kernels.Identity)
	l.Act(be, h)
	l.Second.AddTo(be, x, h, kernels.Tensor{})
}

// Patches returns the patches of images (B, H, W, 3), each p x p pixels, as rows of (3, p, p) numbers. Pixels on the right and
// below that do not fill a patch are ignored.
func Patches(pixels []float32, b, height, width, p int) []float32 {
	rows, columns := height/p, width/p
	out := make([]float32, 0, b*rows*columns*3*p*p)
	for image := range slices.Chunk(pixels, height*width*3) {
		for i := range rows * columns {
			top, left := i/columns*p, i%columns*p
			for c := range 3 {
				for y := range p {
					row := image[((top+y)*width+left)*3+c:]
					for x := range p {
						out = append(out, row[3*x])
					}
				}
			}
		}
	}
	return out
}

// Tokens returns tokens (B, 1+N, C) for patches, the rows of Patches (B, N): the class token, then the patches multiplied by
// embed (C, 3 p p), each plus its position (1+N, C).
func Tokens(be kernels.Backend, dt kernels.DType, b int, patches []float32, embed nn.Linear, class, positions kernels.Tensor) kernels.Tensor {
	n, c := positions.Dim(0)-1, positions.Dim(1)
	x := be.Alloc(dt, b, 1+n, c)
	defer be.Scope()()
	vectors := be.Alloc(dt, b*n, embed.W.Dim(1))
	be.Upload(vectors, patches)
	be.Copy(x.Narrow(1, 0, 1), class.Reshape(1, 1, c).Expand(b, 1, c))
	be.Copy(x.Narrow(1, 1, n), embed.Forward(be, vectors, kernels.Identity).Reshape(b, n, c))
	be.Binary(x, x, positions.Reshape(1, 1+n, c).Expand(x.Shape...), kernels.Add)
	return x
}
