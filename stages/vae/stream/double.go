package stream

import "latentbeam/kernels"

// Doubling enlarges an axis twice by linear interpolation between centers, as PyTorch does without align_corners: each value is
// 3/4 of the nearer and 1/4 of the farther neighbour.
type Doubling struct{ quarter, rest kernels.Tensor } // (1)

// NewDoubling returns a Doubling, allocated in the present scope.
func NewDoubling(be kernels.Backend) Doubling {
	number := func(v float32) kernels.Tensor {
		x := be.Alloc(kernels.F32, 1)
		be.Upload(x, []float32{v})
		return x
	}
	return Doubling{number(0.25), number(0.75)}
}

// Blend computes dst = 3/4 near + 1/4 far.
func (d Doubling) Blend(be kernels.Backend, dst, near, far kernels.Tensor) {
	defer be.Scope()()
	part := func(x, share kernels.Tensor) kernels.Tensor {
		y := be.Alloc(kernels.F32, x.Shape...)
		be.Binary(y, x, share.Expand(x.Shape...), kernels.Mul)
		return y
	}
	be.Binary(dst, part(far, d.quarter), part(near, d.rest), kernels.Add)
}

// Into fills dst with x enlarged twice along an axis. dst has an additional axis of length 2 after that axis.
func (d Doubling) Into(be kernels.Backend, dst, x kernels.Tensor, axis int) {
	n := x.Dim(axis)
	at := func(half, from, count int) kernels.Tensor { // entries of dst, shaped as those of x
		y := dst.Narrow(axis+1, half, 1).Narrow(axis, from, count)
		shape := append([]int(nil), x.Shape...)
		shape[axis] = count
		return y.Reshape(shape...)
	}
	be.Copy(at(0, 0, 1), x.Narrow(axis, 0, 1))
	be.Copy(at(1, n-1, 1), x.Narrow(axis, n-1, 1))
	if n == 1 {
		return
	}
	early, late := x.Narrow(axis, 0, n-1), x.Narrow(axis, 1, n-1)
	d.Blend(be, at(0, 1, n-1), late, early)
	d.Blend(be, at(1, 0, n-1), early, late)
}

// Space fills dst (N, 2h, 2w, C) with the rows of images x (N, above+h+below, w, C), enlarged twice. The rows above and below
// are only used as neighbours.
func (d Doubling) Space(be kernels.Backend, dst, x kernels.Tensor, above int) {
	defer be.Scope()()
	n, h, w, c := x.Dim(0), dst.Dim(1)/2, x.Dim(2), x.Dim(3)
	tall := be.Alloc(kernels.F32, n, x.Dim(1), 2, w, c)
	d.Into(be, tall, x, 1)
	own := tall.Narrow(1, above, h)
	d.Into(be, dst.Reshape(n, 2*h, w, 2, c), own.Reshape(n, 2*h, w, c), 2)
}
