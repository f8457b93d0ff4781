package causal

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// conv is a convolution with copies of the first frame at the front. With stride 2 in height and width, the input has an
// additional row and column of zeros below and on the right.
type conv struct {
	w, b                     kernels.Tensor // (Cout, Cin, KT, K, K), (Cout)
	stride, strideT, upscale int            // 0: 1
}

// loadConv reads a Conv2d, or a CausalConv3d, whose tensors are nested deeper, with the given size.
func loadConv(w *weights.Weights, name, kind string, in, out, frames, size int) conv {
	if kind == conv2D {
		w = w.Sub(name)
		weight := w.Tensor("weight", out, in, size, size)
		if !weight.IsZero() {
			weight = weight.Reshape(out, in, 1, size, size)
		}
		return conv{w: weight, b: w.Tensor("bias", out)}
	}
	w = w.Sub(name).Sub("conv")
	return conv{w: w.Tensor("weight", out, in, frames, size, size), b: w.Tensor("bias", out)}
}

// input allocates the input of a convolution. fill is the part (1, T, H, W, Cin) that the caller must fill.
func (c conv) input(be kernels.Backend, dt kernels.DType, t, h, w int) (room, fill kernels.Tensor) {
	front := c.w.Dim(2) - 1
	room = be.Alloc(dt, 1, front+t, h, w, c.w.Dim(1))
	return room, room.Narrow(1, front, t)
}

// into computes dst (1, T', H', W', Cout) from the room that input returned, and adds residual, which may be zero.
func (c conv) into(be kernels.Backend, dst, room, residual kernels.Tensor) {
	if front := c.w.Dim(2) - 1; front > 0 {
		first := room.Narrow(1, 0, front)
		be.Copy(first, room.Narrow(1, front, 1).Expand(first.Shape...))
	}
	pad := c.w.Dim(3) / 2
	spec := kernels.ConvSpec{Bias: c.b, Stride: c.stride, StrideT: c.strideT, Upsample: c.upscale, Residual: residual,
		Top: pad, Left: pad, Bottom: pad, Right: pad}
	if c.stride > 1 {
		spec.Top, spec.Left = 0, 0
	}
	be.Conv(dst, room, c.w, spec)
}

// apply returns the convolution of x (1, T, H, W, Cin), of height x width.
func (c conv) apply(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	if c.strideT > 1 {
		t = (t + 1) / 2
	}
	if c.stride > 1 {
		h, w = h/2, w/2
	}
	up := max(1, c.upscale)
	y := be.Alloc(x.DType, 1, t, up*h, up*w, c.w.Dim(0))
	defer be.Scope()()
	room := x
	if c.w.Dim(2) > 1 {
		var fill kernels.Tensor
		room, fill = c.input(be, x.DType, x.Dim(1), x.Dim(2), x.Dim(3))
		be.Copy(fill, x)
	}
	c.into(be, y, room, kernels.Tensor{})
	return y
}

// norm is a GroupNorm over all frames of a group, or over each frame.
type norm struct {
	nn.GroupNorm
	frames bool
}

func loadNorm(w *weights.Weights, name string, c int, frames bool) norm {
	return norm{nn.LoadGroupNorm(w.Sub(name), c, groups, 1e-6), frames}
}

// into computes dst = act(norm(x)); both are (1, T, H, W, C) and may be the same view.
func (n norm) into(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp) {
	if !n.frames {
		n.VideoInto(be, dst, x, act)
		return
	}
	n.Into(be, dst.Reshape(dst.Shape[1:]...), x.Reshape(x.Shape[1:]...), act)
}

// block is ResnetBlock3D, or ResnetBlock2D for single frames: x + conv2(silu(norm2(conv1(silu(norm1(x)))))). If the number of
// channels changes, x passes a pointwise convolution.
type block struct {
	norm1, norm2 norm
	conv1, conv2 conv
	shortcut     *conv // nin_shortcut; nil if the number of channels stays
}

func loadBlock(w *weights.Weights, kind string, in, out int) block {
	convs := conv3D
	if kind == block2D {
		convs = conv2D
	}
	b := block{
		norm1: loadNorm(w, "norm1", in, kind == block2D), conv1: loadConv(w, "conv1", convs, in, out, 3, 3),
		norm2: loadNorm(w, "norm2", out, kind == block2D), conv2: loadConv(w, "conv2", convs, out, out, 3, 3),
	}
	if in != out {
		c := loadConv(w, "nin_shortcut", convs, in, out, 1, 1)
		b.shortcut = &c
	}
	return b
}

// forward returns the block's output (1, T, H, W, Cout) for x (1, T, H, W, Cin). If the number of channels stays, it modifies x
// in place and returns it.
func (b block) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := x
	if b.shortcut != nil {
		y = b.shortcut.apply(be, x) // (1, T, H, W, Cout)
	}
	defer be.Scope()()
	second, between := b.conv2.input(be, x.DType, t, h, w) // (1, T, H, W, Cout)
	end := be.Scope()
	first, fill := b.conv1.input(be, x.DType, t, h, w) // (1, T, H, W, Cin)
	b.norm1.into(be, fill, x, kernels.SiLU)
	b.conv1.into(be, between, first, kernels.Tensor{})
	end()
	b.norm2.into(be, between, between, kernels.SiLU)
	b.conv2.into(be, y, second, y)
	return y
}

// attention is one head over all positions of a frame: AttnBlock3DFix, or AttnBlock3D if mixed is set.
type attention struct {
	norm          norm
	q, k, v, proj conv // (C, C, 1, 1, 1)
	mixed         bool
}

func loadAttention(w *weights.Weights, kind string, c int) attention {
	point := func(name string) conv { return loadConv(w, name, conv3D, c, c, 1, 1) }
	return attention{loadNorm(w, "norm", c, false), point("q"), point("k"), point("v"), point("proj_out"),
		kind == attentionMixed}
}

// addTo adds the attention of x (1, T, H, W, C) to x, in place.
func (a attention) addTo(be kernels.Backend, x kernels.Tensor) {
	defer be.Scope()()
	t, n, c := x.Dim(1), x.Dim(2)*x.Dim(3), x.Dim(4)
	h := be.Alloc(x.DType, x.Shape...)
	a.norm.into(be, h, x, kernels.Identity)
	tokens := func(l conv) kernels.Tensor { // (T, H W, 1, C)
		return a.reinterpret(be, l.apply(be, h).Reshape(t, n, c)).Reshape(t, n, 1, c)
	}
	q, k, v := tokens(a.q), tokens(a.k), tokens(a.v)
	mixed := be.Alloc(x.DType, t, n, 1, c)
	be.Attention(mixed, q, k, v, kernels.AttentionSpec{Scale: nn.AttentionScale(c)})
	a.proj.into(be, x, a.restoreOrder(be, mixed.Reshape(t, n, c)).Reshape(x.Shape...), x)
}

// reinterpret rearranges x (T, N, C) for the attention. The reference's AttnBlock3D reinterprets memory of shape (C, T) as (T, C), so
// that a frame there consists of parts of all frames. Weights were trained with that.
func (a attention) reinterpret(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	t, n, c := x.Dim(0), x.Dim(1), x.Dim(2)
	if !a.mixed || t == 1 {
		return x
	}
	y := be.Alloc(x.DType, n, c, t)
	be.Copy(y, x.Permute(1, 2, 0))
	z := be.Alloc(x.DType, t, n, c)
	be.Copy(z, y.Reshape(n, t, c).Permute(1, 0, 2))
	return z
}

// restoreOrder is the inverse of reinterpret.
func (a attention) restoreOrder(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	t, n, c := x.Dim(0), x.Dim(1), x.Dim(2)
	if !a.mixed || t == 1 {
		return x
	}
	y := be.Alloc(x.DType, n, t, c)
	be.Copy(y, x.Permute(1, 0, 2))
	z := be.Alloc(x.DType, t, n, c)
	be.Copy(z, y.Reshape(n, c, t).Permute(2, 0, 1))
	return z
}

// middle is "mid": block, attention, block.
type middle struct {
	first, second block
	attention     attention
}

func loadMiddle(w *weights.Weights, kind, attention string, c int) middle {
	w = w.Sub("mid")
	return middle{first: loadBlock(w.Sub("block_1"), kind, c, c), attention: loadAttention(w.Sub("attn_1"), attention, c),
		second: loadBlock(w.Sub("block_2"), kind, c, c)}
}

// forward returns the output for x, both (1, T, H, W, C).
func (m middle) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	x = m.first.forward(be, x)
	m.attention.addTo(be, x)
	return m.second.forward(be, x)
}

// halveTime averages x (1, T, H, W, C) over three frames to (1, (T+1)/2, H, W, C), with two copies of the first frame at the
// front.
func halveTime(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	t := (x.Dim(1) + 1) / 2
	y := be.Alloc(x.DType, 1, t, x.Dim(2), x.Dim(3), x.Dim(4))
	defer be.Scope()()
	third := be.Alloc(kernels.F32, 1)
	be.Upload(third, []float32{1. / 3})
	sum := be.Alloc(kernels.F32, 1, 1, x.Dim(2), x.Dim(3), x.Dim(4))
	frame := func(i int) kernels.Tensor { return x.Narrow(1, max(0, i), 1) }
	for i := range t {
		be.Binary(sum, frame(2*i-2), frame(2*i-1), kernels.Add)
		be.Binary(sum, sum, frame(2*i), kernels.Add)
		be.Binary(y.Narrow(1, i, 1), sum, third.Expand(sum.Shape...), kernels.Mul)
	}
	return y
}

// timeline returns frame number i of x (1, T, H, W, C) with twice the frames, by linear interpolation; the first frame is not
// doubled. The result is a frame of x, or is computed into room.
func timeline(be kernels.Backend, d stream.Doubling, x, room kernels.Tensor, i int) kernels.Tensor {
	last := x.Dim(1) - 1
	near := (i + 1) / 2
	far := min(near+1, last) // the frame after it
	if i%2 == 1 {
		far = max(near-1, 1) // the frame before it
	}
	if i == 0 || near == far {
		return x.Narrow(1, near, 1)
	}
	d.Blend(be, room, x.Narrow(1, near, 1), x.Narrow(1, far, 1))
	return room
}

// doubleTime returns x (1, T, H, W, C) with twice the frames, (1, 2T-1, H, W, C).
func doubleTime(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := be.Alloc(x.DType, 1, 2*x.Dim(1)-1, x.Dim(2), x.Dim(3), x.Dim(4))
	defer be.Scope()()
	d := stream.NewDoubling(be)
	for i := range y.Dim(1) {
		dst := y.Narrow(1, i, 1)
		be.Copy(dst, timeline(be, d, x, dst, i))
	}
	return y
}

// interpolated enlarges x (1, T, H, W, C) twice in height and width, and in time if time is set, by linear interpolation, and
// computes the convolution. It works frame by frame, because the enlarged frames are large.
func (c conv) interpolated(be kernels.Backend, x kernels.Tensor, time bool) kernels.Tensor {
	t, h, w, ch := x.Dim(1), x.Dim(2), x.Dim(3), x.Dim(4)
	if time {
		t = 2*t - 1
	}
	y := be.Alloc(x.DType, 1, t, 2*h, 2*w, c.w.Dim(0))
	defer be.Scope()()
	room, fill := c.input(be, x.DType, t, 2*h, 2*w)
	end := be.Scope()
	d := stream.NewDoubling(be)
	between := be.Alloc(kernels.F32, 1, 1, h, w, ch)
	for i := range t {
		frame := x.Narrow(1, min(i, x.Dim(1)-1), 1)
		if time {
			frame = timeline(be, d, x, between, i)
		}
		d.Space(be, fill.Narrow(1, i, 1).Reshape(1, 2*h, 2*w, ch), frame.Reshape(1, h, w, ch), 0)
	}
	end()
	c.into(be, y, room, kernels.Tensor{})
	return y
}
