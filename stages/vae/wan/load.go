package wan

import (
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weight"
)

// loader reads a network and plans what its streams remember.
type loader struct {
	*weight.Weights
	plan  *stream.Plan
	level int // how often height and width were halved or doubled
}

func (l loader) sub(name string) loader {
	l.Weights = l.Sub(name)
	return l
}

func (l loader) subf(format string, args ...any) loader {
	l.Weights = l.Subf(format, args...)
	return l
}

// cube is a convolution of 3x3x3.
func (l loader) cube(name string, in, out int) stream.Conv { return l.conv(name, in, out, 3, 1) }

// frames is a convolution over three frames of each position.
func (l loader) frames(name string, in, out, stride int) stream.Conv {
	return l.conv(name, in, out, 1, stride)
}

func (l loader) conv(name string, in, out, size, stride int) stream.Conv {
	w := l.Sub(name)
	return l.plan.Conv(stream.Layout{Channels: in, Level: l.level, Frames: 3, Size: size, StrideT: stride},
		w.Tensor("weight", out, in, 3, size, size), w.Tensor("bias", out))
}

// images is a convolution of 3x3 of single frames.
func (l loader) images(name string, in, out int) nn.Conv { return nn.LoadConv(l.Sub(name), in, out, 3) }
