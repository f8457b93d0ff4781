package wan

import "latentbeam/kernels"

// shortcut is what the levels of Wan 2.2 add to their output: in the encoder the means of adjacent values (AvgDown3D), in the
// decoder copies (DupUp3D). It has no tensors.
type shortcut struct{ level }

// steps returns the factors in time and in space.
func (c shortcut) steps() (time, space int) {
	time, space = 1, 1
	if c.time {
		time = 2
	}
	if c.space {
		space = 2
	}
	return time, space
}

// average computes dst (1, T', H', W', Cout) from x (1, T, H, W, Cin). The values of a place, in the order (channel, frame,
// row, column), are divided into Cout groups, and each group becomes its mean. A clip's first frame uses zeros for the missing
// frame before it.
func (c shortcut) average(be kernels.Backend, dst, x kernels.Tensor) {
	defer be.Scope()()
	ft, fs := c.steps()
	t, h, w := dst.Dim(1), dst.Dim(2), dst.Dim(3)
	group := c.in * c.places() / c.out
	missing := t*ft - x.Dim(1)
	full := be.Alloc(kernels.F32, dst.Shape...) // the sums
	zero(be, full)
	for j := range c.places() {
		frame, row, col := j/(fs*fs)-missing, j/fs%fs, j%fs
		if frame < 0 {
			continue
		}
		at := every(x, frame, row, col, ft, fs, t, h, w) // (T', H', W', Cin)
		if c.places()%group == 0 {
			n := c.places() / group
			sum := full.Reshape(t, h, w, c.in, n).Narrow(4, j/group, 1).Reshape(t, h, w, c.in)
			be.Binary(sum, sum, at, kernels.Add)
			continue
		}
		n := group / c.places() // channels in a group
		for i := range n {
			sum := full.Reshape(t, h, w, c.out)
			be.Binary(sum, sum, at.Reshape(t, h, w, c.out, n).Narrow(4, i, 1).Reshape(t, h, w, c.out), kernels.Add)
		}
	}
	share := be.Alloc(kernels.F32, 1)
	be.Upload(share, []float32{1 / float32(group)})
	be.Binary(dst, full, share.Expand(dst.Shape...), kernels.Mul)
}

// repeat computes dst (1, T', H', W', Cout) from x (1, T, H, W, Cin). Every channel is copied, and the copies are read as
// (channel, frame, row, column). Of the first two frames of a clip the earlier one is dropped.
func (c shortcut) repeat(be kernels.Backend, dst, x kernels.Tensor) {
	ft, fs := c.steps()
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	times := c.out * c.places() / c.in
	missing := t*ft - dst.Dim(1)
	x = x.Reshape(t, h, w, c.in)
	for j := range c.places() {
		frame, row, col := j/(fs*fs)-missing, j/fs%fs, j%fs
		if frame < 0 {
			continue
		}
		at := every(dst, frame, row, col, ft, fs, t, h, w) // (T, H, W, Cout)
		if c.places()%times == 0 {
			n := c.places() / times
			be.Copy(at, x.Reshape(t, h, w, c.out, n).Narrow(4, j/times, 1).Reshape(t, h, w, c.out))
			continue
		}
		n := times / c.places() // number of equal channels
		be.Copy(at.Reshape(t, h, w, c.in, n), x.Reshape(t, h, w, c.in, 1).Expand(t, h, w, c.in, n))
	}
}

// every returns the view (t, h, w, C) of every ft-th frame and fs-th row and column of x (1, T, H, W, C), starting at frame,
// row and col.
func every(x kernels.Tensor, frame, row, col, ft, fs, t, h, w int) kernels.Tensor {
	c := x.Dim(4)
	x = x.Narrow(2, 0, h*fs).Narrow(3, 0, w*fs)
	if x.Dim(1) < ft { // first frame of a clip
		x = x.Narrow(1, frame, 1).Reshape(1, 1, h*fs, w*fs, c)
		frame, ft = 0, 1
	}
	x = x.Reshape(t, ft, h, fs, w, fs, c)
	return x.Narrow(1, frame, 1).Narrow(3, row, 1).Narrow(5, col, 1).Reshape(t, h, w, c)
}

// zero fills a dense x with zeros.
func zero(be kernels.Backend, x kernels.Tensor) {
	one := be.Alloc(kernels.F32, 1)
	be.Upload(one, []float32{0})
	be.Copy(x, one.Expand(x.Shape...))
}
