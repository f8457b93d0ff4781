package raft

import (
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/flow"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Sizes of the only published network.
const (
	stride        = 8   // pixels of a place of the refined flow
	featureWidth  = 256 // channels of the compared features
	stateWidth    = 128 // channels of the recurrent state, and of the context
	motionWidth   = 128 // channels of the motion features: the current flow and the looked-up comparisons
	radius        = 4   // radius of a lookup in a level
	lookupWidth   = flow.Levels * (2*radius + 1) * (2*radius + 1)
	neighbours    = 9 // number of places that a pixel of the full-size flow depends on
	convNormEps   = 1e-5
	MinSide       = stride << flow.Levels // smallest padded side in pixels: with less the last level would have one place, which cannot be interpolated
	learntSize    = neighbours * stride * stride
	channelsOfRGB = 3
)

// Config is empty, because there is only one published network.
type Config struct{}

// ParseConfig accepts any config.json; none is published.
func ParseConfig([]byte) (Config, error) { return Config{}, nil }

// RAFT is the network with its weights on a device. It is read-only and safe for use by any backend of the device.
type RAFT struct {
	features, context encoder
	motion            motion
	across, down      gru
	delta             [2]nn.Conv // flow_head
	mask              [2]nn.Conv
}

// motion computes 126 channels from the flow and the looked-up comparisons.
type motion struct{ corr1, corr2, flow1, flow2, out nn.Conv }

// gru is one half of an update, with kernels (1, 5) or (5, 1).
type gru struct{ z, r, q nn.Conv }

// encoder computes the features of an image.
type encoder struct {
	first  nn.Conv
	norm   batchNorm
	blocks []block
	last   nn.Conv
}

// block is a residual block.
type block struct {
	conv1, conv2, shortcut nn.Conv // shortcut: if the block has a stride
	norm1, norm2, norm3    batchNorm
	stride                 int
}

// batchNorm is a norm with learnt weight, bias, mean and variance (4, C). Without them each channel is normalised over its
// image.
type batchNorm struct{ learnt kernels.Tensor }

// Load loads the tensors by the names of princeton-vl/RAFT. The error lists every tensor that does not fit.
func Load(_ Config, w *weights.Weights) (*RAFT, error) {
	u := w.Sub("update_block")
	r := &RAFT{features: loadEncoder(w.Sub("fnet"), featureWidth, false), context: loadEncoder(w.Sub("cnet"), 2*stateWidth, true)}
	m := u.Sub("encoder")
	r.motion = motion{nn.LoadConv(m.Sub("convc1"), lookupWidth, 256, 1), nn.LoadConv(m.Sub("convc2"), 256, 192, 3),
		nn.LoadConv(m.Sub("convf1"), 2, 128, 7), nn.LoadConv(m.Sub("convf2"), 128, 64, 3), nn.LoadConv(m.Sub("conv"), 192+64, motionWidth-2, 3)}
	half := func(number, rows, columns int) gru {
		conv := func(name string) nn.Conv {
			g := u.Subf("gru.conv%s%d", name, number)
			return nn.Conv{W: g.Tensor("weight", stateWidth, 2*stateWidth+motionWidth, rows, columns), B: g.Tensor("bias", stateWidth)}
		}
		return gru{conv("z"), conv("r"), conv("q")}
	}
	r.across, r.down = half(1, 1, 5), half(2, 5, 1)
	r.delta = [2]nn.Conv{nn.LoadConv(u.Sub("flow_head.conv1"), stateWidth, 256, 3), nn.LoadConv(u.Sub("flow_head.conv2"), 256, 2, 3)}
	r.mask = [2]nn.Conv{nn.LoadConv(u.Sub("mask.0"), stateWidth, 256, 3), nn.LoadConv(u.Sub("mask.2"), 256, learntSize, 1)}
	w.Hint("the weights are those of RAFT, not of its small form: raft-things.pth of princeton-vl/RAFT after `latentbeam convert`, or " +
		"raft_large of torchvision")
	if err := w.Check(unused()...); err != nil {
		return nil, fmt.Errorf("load RAFT: %w", err)
	}
	return r, nil
}

// unused returns tensors that are not used: counts of batches, and norms that occur twice.
func unused() (names []string) {
	names = []string{"cnet.norm1.num_batches_tracked"}
	for layer := 1; layer <= 3; layer++ {
		for i := range 2 {
			at := fmt.Sprintf("cnet.layer%d.%d.", layer, i)
			names = append(names, at+"norm1.num_batches_tracked", at+"norm2.num_batches_tracked", at+"norm3.*", at+"downsample.1.num_batches_tracked")
		}
	}
	return names
}

func loadEncoder(w *weights.Weights, out int, learnt bool) encoder {
	norm := func(w *weights.Weights, name string, c int) (n batchNorm) {
		if learnt {
			w = w.Sub(name)
			n.learnt = w.Stack(c, "weight", "bias", "running_mean", "running_var")
		}
		return n
	}
	e := encoder{first: nn.LoadConv(w.Sub("conv1"), channelsOfRGB, 64, 7), norm: norm(w, "norm1", 64)}
	in := 64
	for layer, width := range []int{64, 96, 128} {
		for i := range 2 {
			w := w.Subf("layer%d.%d", layer+1, i)
			b := block{conv1: nn.LoadConv(w.Sub("conv1"), in, width, 3), conv2: nn.LoadConv(w.Sub("conv2"), width, width, 3),
				norm1: norm(w, "norm1", width), norm2: norm(w, "norm2", width), stride: 1}
			if layer > 0 && i == 0 {
				b.stride = 2
				b.shortcut, b.norm3 = nn.LoadConv(w.Sub("downsample.0"), in, width, 1), norm(w, "downsample.1", width)
			}
			e.blocks = append(e.blocks, b)
			in = width
		}
	}
	e.last = nn.LoadConv(w.Sub("conv2"), in, out, 1)
	return e
}

// apply normalises x (1, H, W, C) in place, and applies ReLU.
func (n batchNorm) apply(be kernels.Backend, x kernels.Tensor, relu bool) {
	if n.learnt.IsZero() {
		nn.InstanceNorm(be, x, relu)
		return
	}
	func() {
		defer be.Scope()()
		t := be.Alloc(kernels.F32, 2, 1, 1, x.Dim(3))
		be.Upload(t, n.affine(be))
		be.Binary(x, x, t.Narrow(0, 0, 1).Expand(x.Shape...), kernels.Mul)
		be.Binary(x, x, t.Narrow(0, 1, 1).Expand(x.Shape...), kernels.Add)
	}()
	if relu {
		nn.ReLU(be, x)
	}
}

// encode returns the features (1, H/8, W/8, out) of an image (1, H, W, 3). Its sides must be multiples of 8.
func (e encoder) encode(be kernels.Backend, image kernels.Tensor) kernels.Tensor {
	out := be.Alloc(kernels.F32, 1, image.Dim(1)/stride, image.Dim(2)/stride, e.last.W.Dim(0))
	defer be.Scope()()
	x := e.first.Strided(be, image, 2)
	e.norm.apply(be, x, true)
	for _, b := range e.blocks {
		x = b.forward(be, x)
	}
	e.last.Into(be, out, x, kernels.Tensor{})
	return out
}

// forward returns relu(x + relu(norm(conv2(relu(norm(conv1(x))))))). If the block has a stride, x is reduced by the shortcut.
func (b block) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := b.conv1.Strided(be, x, b.stride)
	b.norm1.apply(be, y, true)
	y = b.conv2.Strided(be, y, 1)
	b.norm2.apply(be, y, true)
	if b.stride > 1 {
		x = b.shortcut.Strided(be, x, b.stride)
		b.norm3.apply(be, x, false)
	}
	be.Binary(y, y, x, kernels.Add)
	nn.ReLU(be, y)
	return y
}

// affine returns the factors and offsets of a norm with learnt statistics, (2, C).
func (n batchNorm) affine(be kernels.Backend) []float32 {
	c := n.learnt.Dim(1)
	learnt := make([]float32, 4*c)
	if be.Download(learnt, n.learnt) != nil {
		return learnt[:2*c] // the backend reports the error again at the next wait
	}
	out := make([]float32, 2*c)
	for i := range c {
		f := float64(learnt[i]) / math.Sqrt(float64(learnt[3*c+i])+convNormEps)
		out[i] = float32(f)
		out[c+i] = float32(float64(learnt[c+i]) - float64(float64(learnt[2*c+i])*f))
	}
	return out
}
