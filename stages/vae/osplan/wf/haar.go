package wf

import (
	"latentbeam/kernels"
	"latentbeam/stages/vae/stream"
)

// colors is the number of channels of pixels, and of each frequency band.
const colors = 3

// The factors of the Haar transforms. The factor over time is 0.3536 in the reference, not the square root of 1/8.
const (
	haarTime  = 0.3536
	haarSpace = 0.5
)

// haar3D returns the matrix of the Haar transform of 2x2x2 blocks. It maps the values of a block in the order (frame, row,
// column, color) to bands. A band is identified by which of (time, rows, columns) have high frequency, and has its colors
// together. analysis has a row for each band and color; the transpose is the inverse.
func haar3D(dt kernels.DType) []float32 {
	return haar(8, haarTime, dt, func(band int) int { return band })
}

// haar2D returns the matrix for 2x2 blocks (row, column, color). Its second band has high frequency in rows, its third in
// columns.
func haar2D(dt kernels.DType) []float32 {
	return haar(4, haarSpace, dt, func(band int) int { return [...]int{0, 2, 1, 3}[band] })
}

// haar returns the matrix for blocks of n places. signs returns a bit for each axis of a band: if it is set, the second value
// on that axis is subtracted.
func haar(n int, factor float64, dt kernels.DType, signs func(band int) int) []float32 {
	out := make([]float32, n*colors*n*colors)
	for band := range n {
		for place := range n {
			v := dt.Round(float32(factor))
			for odd := signs(band) & place; odd > 0; odd &= odd - 1 {
				v = -v
			}
			for c := range colors {
				out[(band*colors+c)*n*colors+place*colors+c] = v
			}
		}
	}
	return out
}

// transposed returns the n x n matrix m with rows as columns.
func transposed(m []float32, n int) []float32 {
	out := make([]float32, len(m))
	for i := range n {
		for j := range n {
			out[j*n+i] = m[i*n+j]
		}
	}
	return out
}

// transforms holds the matrices of the Haar transforms, (24, 24) and (12, 12).
type transforms struct{ time, space kernels.Tensor }

// analysis returns the encoder's matrices, allocated in the present scope.
func analysis(be kernels.Backend, dt kernels.DType) transforms {
	return transforms{uploaded(be, haar3D(dt), 8*colors), uploaded(be, haar2D(dt), 4*colors)}
}

// synthesis returns the decoder's matrices, allocated in the present scope.
func synthesis(be kernels.Backend, dt kernels.DType) transforms {
	return transforms{uploaded(be, transposed(haar3D(dt), 8*colors), 8*colors),
		uploaded(be, transposed(haar2D(dt), 4*colors), 4*colors)}
}

func uploaded(be kernels.Backend, m []float32, n int) kernels.Tensor {
	x := be.Alloc(kernels.F32, n, n)
	be.Upload(x, m)
	return x
}

// blocks3D computes the bands (1, T/2, H/2, W/2, 24) of x (1, T, H, W, 3).
func (m transforms) blocks3D(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1)/2, x.Dim(2)/2, x.Dim(3)/2
	bands := s.Alloc(s.DType, 1, t, h, w, 8*colors)
	defer s.Scope()()
	blocks := s.Alloc(s.DType, t, h, w, 2, 2, 2, colors)
	s.Copy(blocks, x.Reshape(t, 2, h, 2, w, 2, colors).Permute(0, 2, 4, 1, 3, 5, 6))
	s.Linear(bands, blocks.Reshape(bands.Shape...), m.time, kernels.Epilogue{})
	return bands
}

// blocks2D computes the bands (1, T, H/2, W/2, 12) of x (1, T, H, W, 3).
func (m transforms) blocks2D(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2)/2, x.Dim(3)/2
	bands := s.Alloc(s.DType, 1, t, h, w, 4*colors)
	defer s.Scope()()
	blocks := s.Alloc(s.DType, t, h, w, 2, 2, colors)
	s.Copy(blocks, x.Reshape(t, h, 2, w, 2, colors).Permute(0, 1, 3, 2, 4, 5))
	s.Linear(bands, blocks.Reshape(bands.Shape...), m.space, kernels.Epilogue{})
	return bands
}

// frames3D is the inverse of blocks3D: x (1, T, H, W, 24) -> (1, 2T, 2H, 2W, 3). If first is set it omits the clip's first
// frame, which is only padding.
func (m transforms) frames3D(s *stream.Stream, x kernels.Tensor, first bool) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := s.Alloc(s.DType, t, 2, h, 2, w, 2, colors)
	end := s.Scope()
	blocks := s.Alloc(s.DType, x.Shape...)
	s.Linear(blocks, x, m.time, kernels.Epilogue{})
	s.Copy(y, blocks.Reshape(t, h, w, 2, 2, 2, colors).Permute(0, 3, 1, 4, 2, 5, 6))
	end()
	y = y.Reshape(1, 2*t, 2*h, 2*w, colors)
	if first {
		return y.Narrow(1, 1, 2*t-1)
	}
	return y
}

// frames2D is the inverse of blocks2D: x (1, T, H, W, 12) -> (1, T, 2H, 2W, 3).
func (m transforms) frames2D(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := s.Alloc(s.DType, t, h, 2, w, 2, colors)
	defer s.Scope()()
	blocks := s.Alloc(s.DType, x.Shape...)
	s.Linear(blocks, x, m.space, kernels.Epilogue{})
	s.Copy(y, blocks.Reshape(t, h, w, 2, 2, colors).Permute(0, 1, 3, 2, 4, 5))
	return y.Reshape(1, t, 2*h, 2*w, colors)
}

// twice returns x (1, T, H, W, 3), with its first frame repeated if the clip starts here, so that the frame is paired with
// itself.
func twice(s *stream.Stream, x kernels.Tensor, first bool) kernels.Tensor {
	if !first {
		return x
	}
	t := x.Dim(1)
	y := s.Alloc(x.DType, 1, 1+t, x.Dim(2), x.Dim(3), colors)
	s.Copy(y.Narrow(1, 1, t), x)
	s.Copy(y.Narrow(1, 0, 1), x.Narrow(1, 0, 1))
	return y
}
