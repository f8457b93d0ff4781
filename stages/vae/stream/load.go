package stream

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Loader reads a network and counts what its streams must remember.
type Loader struct {
	*weights.Weights
	Convs *Convs
	Level int // number of times that height and width were halved or doubled
}

// Sub returns the loader for tensors under a name.
func (l Loader) Sub(name string) Loader {
	l.Weights = l.Weights.Sub(name)
	return l
}

// Subf is Sub with a formatted name.
func (l Loader) Subf(format string, args ...any) Loader {
	l.Weights = l.Weights.Subf(format, args...)
	return l
}

// Layout describes a Conv whose tensors are not read yet: its input channels, kernel and stride. A stride of 0 means 1. A
// stride of 2 in height and width sees one row and column of zeros below and on the right.
type Layout struct {
	Channels        int
	Frames, Size    int // of the kernel: (Frames, Size, Size)
	StrideT, Stride int
}

// Conv reads "weight" and "bias" of a convolution with out output channels.
func (l Loader) Conv(of Layout, out int) Conv {
	c := Conv{W: l.Tensor("weight", out, of.Channels, of.Frames, of.Size, of.Size), B: l.Tensor("bias", out),
		all: l.Convs, number: len(l.Convs.memories), stride: max(1, of.Stride), strideT: max(1, of.StrideT)}
	l.Convs.memories = append(l.Convs.memories, memory{of.Frames - c.strideT, of.Channels, l.Level, of.Size, c.stride})
	return c
}

// Images reads a 3x3 convolution for single frames.
func (l Loader) Images(name string, in, out int) Frames {
	conv := nn.LoadConv(l.Weights.Sub(name), in, out, 3)
	return Frames{W: conv.W, B: conv.B}
}

// Norm normalises the channels of each position.
type Norm interface {
	// Into computes dst = act(norm(x)); both are (1, T, H, W, C) and may be the same view.
	Into(be kernels.Backend, dst, x kernels.Tensor, act kernels.UnaryOp)
}

// Block is a residual block: x + conv2(silu(norm2(conv1(silu(norm1(x)))))).
type Block struct {
	Norm1, Norm2 Norm
	Conv1, Conv2 Conv
	Shortcut     func(be kernels.Backend, x kernels.Tensor) kernels.Tensor // applied to x if the number of channels changes, else nil
}

// Forward returns the block's output (1, T, H, W, Cout) for x (1, T, H, W, Cin). If the number of channels stays, it modifies x
// in place and returns it.
func (b Block) Forward(s *Stream, x kernels.Tensor) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := x
	if b.Shortcut != nil {
		y = b.Shortcut(s, x) // (1, T, H, W, Cout)
	}
	defer s.Scope()()
	second, between := s.Input(b.Conv2, t, h, w) // (1, T, H, W, Cout)
	first, fill := s.Input(b.Conv1, t, h, w)     // (1, T, H, W, Cin)
	b.Norm1.Into(s, fill, x, kernels.SiLU)
	s.Convolve(b.Conv1, between, first, kernels.Tensor{})
	b.Norm2.Into(s, between, between, kernels.SiLU)
	s.Convolve(b.Conv2, y, second, y)
	return y
}

// Layer processes x (1, T, H, W, C). It returns x, modified in place, or a new tensor.
type Layer interface {
	Forward(s *Stream, x kernels.Tensor) kernels.Tensor
}

// Through runs x through layers, one after another.
func Through[L Layer](s *Stream, layers []L, x kernels.Tensor) kernels.Tensor {
	for _, l := range layers {
		x = l.Forward(s, x)
	}
	return x
}
