package wf

import (
	"latentbeam/kernels"
	"latentbeam/stages/vae/stream"
)

// enlarge is Spatial2xTime2x3DUpsample: twice the frames except for the first of a clip, twice the height and width, and a
// convolution. A frame is interpolated between its neighbours, so the last one waits for the next.
type enlarge struct {
	conv   stream.Conv
	linear bool // interpolate in time; otherwise repeat frames
}

func loadEnlarge(l stream.Loader, c int, interpolation string) enlarge {
	l.Level++
	return enlarge{conv: cube(l, "conv", c, c, 1), linear: interpolation == linear}
}

// waiting holds the frame of a clip that waits for the next one.
type waiting struct {
	stream.Doubling
	frame kernels.Tensor // (1, 1, h, w, C)
	seen  int            // frames of the clip
}

// newWaiting returns the state at the start of a clip, allocated in the present scope.
func newWaiting(be kernels.Backend, dt kernels.DType, h, w, c int) *waiting {
	return &waiting{Doubling: stream.NewDoubling(be), frame: be.Alloc(dt, 1, 1, h, w, c)}
}

// forward takes the next frame x (1, 1, h, w, C) of the clip and returns the frames (1, n, 2h, 2w, C) that it completes: 1 for
// each of the first two, 2 for each later one.
func (e enlarge) forward(s *stream.Stream, m *waiting, x kernels.Tensor) kernels.Tensor {
	n := min(2, max(1, m.seen))
	y := s.Alloc(s.DType, 1, n, 2*x.Dim(2), 2*x.Dim(3), x.Dim(4))
	defer s.Scope()()
	between := x
	if m.seen > 1 {
		between = s.Alloc(s.DType, 1, 2, x.Dim(2), x.Dim(3), x.Dim(4))
		for i, pair := range [][2]kernels.Tensor{{m.frame, x}, {x, m.frame}} { // nearer frame first
			if dst := between.Narrow(1, i, 1); e.linear {
				m.Blend(s, dst, pair[0], pair[1])
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

// finish returns the last frame of a clip with several latent frames. It has no next frame.
func (e enlarge) finish(s *stream.Stream, m *waiting) kernels.Tensor {
	y := s.Alloc(s.DType, 1, 1, 2*m.frame.Dim(2), 2*m.frame.Dim(3), m.frame.Dim(4))
	defer s.Scope()()
	e.space(s, m, y, m.frame)
	return y
}

// space computes y (1, n, 2h, 2w, C) from x (1, n, h, w, C): bilinear interpolation and the convolution.
func (e enlarge) space(s *stream.Stream, m *waiting, y, x kernels.Tensor) {
	n, h, w, c := x.Dim(1), x.Dim(2), x.Dim(3), x.Dim(4)
	room, fill := s.Input(e.conv, n, 2*h, 2*w)
	end := s.Scope()
	x, above := s.Around(x)
	m.Space(s, fill.Reshape(n, 2*h, 2*w, c), x.Reshape(n, x.Dim(2), w, c), above)
	end()
	s.Convolve(e.conv, y, room, kernels.Tensor{})
}
