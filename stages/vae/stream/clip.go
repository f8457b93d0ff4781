package stream

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
)

// Factor is the number of frames that become one latent frame. The first frame becomes one latent frame alone.
const Factor = 4

// Latents returns the shape (C, T', h, w) of the latents of a clip. Its sides must be multiples of multiple. The error names
// the parameter that does not fit.
func Latents(channels, frames, height, width, downscale, multiple int) ([]int, error) {
	switch {
	case frames%Factor != 1:
		return nil, fmt.Errorf("num_frames is %d: this autoencoder takes 1 frame and any multiple of %d more, such as %d",
			frames, Factor, schemas.NearestFrames(frames, Factor, 1))
	case height%multiple != 0:
		return nil, fmt.Errorf("height is %d: give a multiple of %d", height, multiple)
	case width%multiple != 0:
		return nil, fmt.Errorf("width is %d: give a multiple of %d", width, multiple)
	}
	return []int{channels, (frames-1)/Factor + 1, height / downscale, width / downscale}, nil
}

// Chunk uploads the values of a chunk.
func (s *Stream) Chunk(values []float32, shape ...int) kernels.Tensor {
	x := s.Alloc(s.DType, shape...)
	s.Upload(x, values)
	return x
}

// Step downloads the result of next into dst, and returns the number of its values and frames.
func (s *Stream) Step(dst []float32, next func() kernels.Tensor) (n, frames int, err error) {
	defer s.Scope()()
	y := next()
	if s.Err != nil {
		return 0, 0, s.Err
	}
	return y.Len(), y.Dim(1), s.Download(dst[:y.Len()], y)
}

// Encode splits a clip of height x width pixels into chunks: 1 frame (1, T, H, W, 3) first, then Factor frames at a time. It
// calls next for each chunk and emit with the result, the moments of one latent frame. moments is a buffer for them. pixels
// fills dst (n, H, W, 3) with the frames first to first+n.
func (s *Stream) Encode(frames, height, width int, moments []float32, next func(x kernels.Tensor, first bool) kernels.Tensor,
	pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error {
	size := height * width * 3
	buffer := make([]float32, min(frames, Factor)*size)
	for first, n := 0, 1; first < frames; first, n = first+n, Factor {
		s.Last = first+n == frames
		if err := pixels(buffer[:n*size], first, n); err != nil {
			return err
		}
		_, _, err := s.Step(moments, func() kernels.Tensor {
			return next(s.Chunk(buffer[:n*size], 1, n, height, width, 3), first == 0)
		})
		if err != nil {
			return err
		}
		emit(moments)
	}
	return nil
}
