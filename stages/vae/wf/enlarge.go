package wf

import (
	"latentbeam/kernels"
	"latentbeam/stages/vae/stream"
)

// enlarge is Spatial2xTime2x3DUpsample: twice the frames but for the first of a clip, twice the height and width, and a
// convolution. A frame is interpolated between its neighbours, so the last one waits for the next.
type enlarge struct {
	conv   stream.Conv
	linear bool // in time; else frames are repeated
}

func loadEnlarge(l loader, c int, interpolation string) enlarge {
	return enlarge{conv: l.at(l.level+1).cube("conv", c, c, 1), linear: interpolation == linear}
}

// waiting is the frame of a clip that waits for the one behind it.
type waiting struct {
	frame   kernels.Tensor // (1, 1, h, w, C)
	quarter kernels.Tensor // (1): 0.25, see blend
	rest    kernels.Tensor // (1): 0.75
	seen    int            // frames of the clip
}

// newWaiting returns the state at the beginning of a clip, in the present scope.
func newWaiting(be kernels.Backend, dt kernels.DType, h, w, c int) *waiting {
	number := func(v float32) kernels.Tensor {
		x := be.Alloc(kernels.F32, 1)
		be.Upload(x, []float32{v})
		return x
	}
	return &waiting{frame: be.Alloc(dt, 1, 1, h, w, c), quarter: number(0.25), rest: number(0.75)}
}

// forward returns the frames (1, n, 2h, 2w, C) that the next frame x (1, 1, h, w, C) of the clip completes: 1 of each of
// the first two, 2 of each later one.
func (e enlarge) forward(s *stream.Stream, m *waiting, x kernels.Tensor) kernels.Tensor {
	n := min(2, max(1, m.seen))
	y := s.Alloc(s.DType, 1, n, 2*x.Dim(2), 2*x.Dim(3), x.Dim(4))
	defer s.Scope()()
	between := x
	if m.seen > 1 {
		between = s.Alloc(s.DType, 1, 2, x.Dim(2), x.Dim(3), x.Dim(4))
		for i, pair := range [][2]kernels.Tensor{{m.frame, x}, {x, m.frame}} { // the nearer first
			if dst := between.Narrow(1, i, 1); e.linear {
				m.blend(s, dst, pair[0], pair[1])
			} else {
				s.Copy(dst, pair[0])
			}
		}
	}
	s.Copy(m.frame, x)
	m.seen++
	e.space(s, m, y, between)
	return y
}

// finish returns the last frame of a clip of several latent frames, which has none behind it.
func (e enlarge) finish(s *stream.Stream, m *waiting) kernels.Tensor {
	y := s.Alloc(s.DType, 1, 1, 2*m.frame.Dim(2), 2*m.frame.Dim(3), m.frame.Dim(4))
	defer s.Scope()()
	e.space(s, m, y, m.frame)
	return y
}

// blend computes dst = 3/4 near + 1/4 far.
func (m *waiting) blend(s *stream.Stream, dst, near, far kernels.Tensor) {
	defer s.Scope()()
	part := func(x, share kernels.Tensor) kernels.Tensor {
		y := s.Alloc(kernels.F32, x.Shape...)
		s.Binary(y, x, share.Expand(x.Shape...), kernels.Mul)
		return y
	}
	s.Binary(dst, part(far, m.quarter), part(near, m.rest), kernels.Add)
}

// space computes y (1, n, 2h, 2w, C) from x (1, n, h, w, C): bilinear interpolation and the convolution.
func (e enlarge) space(s *stream.Stream, m *waiting, y, x kernels.Tensor) {
	n, h, w, c := x.Dim(1), x.Dim(2), x.Dim(3), x.Dim(4)
	room, fill := s.Input(e.conv, n, 2*h, 2*w)
	end := s.Scope()
	x, above := s.Around(x)
	tall := s.Alloc(kernels.F32, n, x.Dim(2), 2, w, c)
	m.double(s, tall, x.Reshape(n, x.Dim(2), w, c), 1)
	own := tall.Narrow(1, above, h)
	m.double(s, fill.Reshape(n, 2*h, w, 2, c), own.Reshape(n, 2*h, w, c), 2)
	end()
	s.Convolve(e.conv, y, room, kernels.Tensor{})
}

// double fills dst with x enlarged twice along an axis, by linear interpolation between centers. dst has another axis of
// 2 behind that axis.
func (m *waiting) double(s *stream.Stream, dst, x kernels.Tensor, axis int) {
	n := x.Dim(axis)
	at := func(half, from, count int) kernels.Tensor { // entries of dst, as those of x
		y := dst.Narrow(axis+1, half, 1).Narrow(axis, from, count)
		shape := append([]int(nil), x.Shape...)
		shape[axis] = count
		return y.Reshape(shape...)
	}
	s.Copy(at(0, 0, 1), x.Narrow(axis, 0, 1))
	s.Copy(at(1, n-1, 1), x.Narrow(axis, n-1, 1))
	if n == 1 {
		return
	}
	early, late := x.Narrow(axis, 0, n-1), x.Narrow(axis, 1, n-1)
	m.blend(s, at(0, 1, n-1), late, early)
	m.blend(s, at(1, 0, n-1), early, late)
}
