package wf

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

// at is the loader of a level.
func (l loader) at(level int) loader {
	l.level = level
	return l
}

// cube is a CausalConv3d of 3x3x3; stride is that in time, height and width.
func (l loader) cube(name string, in, out, stride int) stream.Conv {
	w := l.Sub(name).Sub("conv")
	return l.plan.Conv(stream.Layout{Channels: in, Level: l.level, Frames: 3, Size: 3, StrideT: stride, Stride: stride},
		w.Tensor("weight", out, in, 3, 3, 3), w.Tensor("bias", out))
}

// images is a Conv2d of 3x3.
func (l loader) images(name string, in, out int) stream.Frames {
	conv := nn.LoadConv(l.Sub(name), in, out, 3)
	return stream.Frames{W: conv.W, B: conv.B}
}

// point is a CausalConv3d of 1x1x1.
func (l loader) point(name string, in, out int) nn.Linear {
	w := l.Sub(name).Sub("conv")
	weight := w.Tensor("weight", out, in, 1, 1, 1)
	if !weight.IsZero() {
		weight = weight.Reshape(out, in)
	}
	return nn.Linear{W: weight, B: w.Tensor("bias", out)}
}
