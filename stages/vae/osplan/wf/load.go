package wf

import (
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
)

// cube reads a CausalConv3d of 3x3x3 with the same stride in time, height and width.
func cube(l stream.Loader, name string, in, out, stride int) stream.Conv {
	return l.Sub(name).Sub("conv").Conv(stream.Layout{Channels: in, Frames: 3, Size: 3, StrideT: stride, Stride: stride}, out)
}

// point reads a CausalConv3d of 1x1x1.
func point(l stream.Loader, name string, in, out int) nn.Linear {
	l = l.Sub(name).Sub("conv")
	weight := l.Tensor("weight", out, in, 1, 1, 1)
	if !weight.IsZero() {
		weight = weight.Reshape(out, in)
	}
	return nn.Linear{W: weight, B: l.Tensor("bias", out)}
}
