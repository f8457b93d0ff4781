package amt

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/flow"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Sizes of AMT-S. Its only published file has these values.
const (
	featureWidth = 84 // channels of the compared features
	stemWidth    = 32
	skipWidth    = 20 // channels at the end that a decoder's block processes twice
	radius       = 3  // radius of a lookup in a level
	lookupWidth  = 2 * flow.Levels * (2*radius + 1) * (2*radius + 1)
	corrWidth    = 64 // channels of an update
	flowWidth    = 20
	joinedWidth  = 68
	hiddenWidth  = 76
	leak         = 0.1 // slope of LeakyReLU
	flows        = 3   // pairs of flows in full size
	channels     = 3
	stride       = 8                     // pixels of a place that is compared
	multiple     = 16                    // frames are padded to multiples of this number of pixels
	minSide      = stride << flow.Levels // smallest padded side in pixels: with less the last level would have one place, which cannot be interpolated
)

// pyramid has the channels of an image's features at 1/2, 1/4, 1/8 and 1/16 of its size.
var pyramid = [4]int{20, 32, 44, 56}

// Config is empty, because there is only one network.
type Config struct{}

// ParseConfig accepts any config.json; none is published.
func ParseConfig([]byte) (Config, error) { return Config{}, nil }

// AMT is the network with its weights on a device. It is read-only and safe for use by any backend of the device.
type AMT struct {
	compared features
	pyramid  [4][2]layer
	decoders [4]decoder // from coarse to fine
	updates  [3]update
	combine  layer
	combined nn.Conv
}

// layer is a convolution and PReLU.
type layer struct {
	nn.Conv
	slopes kernels.Tensor // (C)
}

// features computes the features of an image for the comparison.
type features struct {
	first  nn.Conv
	blocks []bottleneck
	last   nn.Conv
}

// bottleneck is a residual block with a quarter of the channels in the middle.
type bottleneck struct {
	conv1, conv2, conv3, shortcut nn.Conv // shortcut: if the block has a stride
	stride                        int
}

// decoder computes flows and features of twice the size.
type decoder struct {
	first        layer
	conv1, conv3 layer
	side2, side4 layer // for the last channels only
	conv5        nn.Conv
	slopes       kernels.Tensor // after the sum
	w, b         kernels.Tensor // transposed convolution: (in, out, 4, 4), (out)
}

// update refines flows and features with looked-up comparisons.
type update struct {
	corr1, flow1, flow2, join nn.Conv
	state, features, flow     [2]nn.Conv
}

// Load loads the tensors by the names of MCG-NKU/AMT. The error lists every tensor that does not fit.
func Load(_ Config, w *weights.Weights) (*AMT, error) {
	m := &AMT{compared: loadFeatures(w.Sub("feat_encoder"))}
	in := channels
	for i, c := range pyramid {
		p := w.Subf("encoder.pyramid%d", i+1)
		m.pyramid[i] = [2]layer{loadLayer(p.Sub("0"), in, c, "0", "1"), loadLayer(p.Sub("1"), c, c, "0", "1")}
		in = c
	}
	for i := range m.decoders {
		c, out := pyramid[3-i], 2*flows+2*flows+flows+channels*flows
		if i < len(m.updates) {
			out = pyramid[2-i] + 4
			m.updates[i] = loadUpdate(w.Subf("update%d", 4-i), pyramid[2-i])
		}
		width, takes := 3*c, 3*c+4 // current features, features of both images, flows
		if i == 0 {
			width, takes = 2*c, 2*c+1 // features of both images, time
		}
		m.decoders[i] = loadDecoder(w.Subf("decoder%d.convblock", 4-i), takes, width, out)
	}
	const images = channels * flows
	m.combine = loadLayer(w.Sub("comb_block"), images, 2*images, "0", "1")
	m.combined = nn.LoadConv(w.Sub("comb_block.2"), 2*images, channels, 3)
	w.Hint("the weights are those of AMT-S, not of AMT-L or AMT-G: amt-s.pth of MCG-NKU/AMT after `latentbeam convert`")
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("load AMT-S: %w", err)
	}
	return m, nil
}

func loadLayer(w *weights.Weights, in, out int, conv, slopes string) layer {
	return layer{nn.LoadConv(w.Sub(conv), in, out, 3), w.Sub(slopes).Tensor("weight", out)}
}

func loadFeatures(w *weights.Weights) features {
	f := features{first: nn.LoadConv(w.Sub("conv1"), channels, stemWidth, 7)}
	in := stemWidth
	for l, c := range []int{stemWidth, 64, 96} {
		for i := range 2 {
			at := w.Subf("layer%d.%d", l+1, i)
			b := bottleneck{conv1: nn.LoadConv(at.Sub("conv1"), in, c/4, 1), conv2: nn.LoadConv(at.Sub("conv2"), c/4, c/4, 3),
				conv3: nn.LoadConv(at.Sub("conv3"), c/4, c, 1), stride: 1}
			if l > 0 && i == 0 {
				b.stride, b.shortcut = 2, nn.LoadConv(at.Sub("downsample.0"), in, c, 1)
			}
			f.blocks = append(f.blocks, b)
			in = c
		}
	}
	f.last = nn.LoadConv(w.Sub("conv2"), in, featureWidth, 1)
	return f
}

func loadDecoder(w *weights.Weights, in, width, out int) decoder {
	block, up := w.Sub("1"), w.Sub("2")
	inner := func(name string, c int) layer { return loadLayer(block.Sub(name), c, c, "0", "1") }
	return decoder{first: loadLayer(w.Sub("0"), in, width, "0", "1"), conv1: inner("conv1", width), side2: inner("conv2", skipWidth),
		conv3: inner("conv3", width), side4: inner("conv4", skipWidth), conv5: nn.LoadConv(block.Sub("conv5"), width, width, 3),
		slopes: block.Sub("prelu").Tensor("weight", width), w: up.Tensor("weight", width, out, 4, 4), b: up.Tensor("bias", out)}
}

func loadUpdate(w *weights.Weights, c int) update {
	conv := func(name string, in, out, k int) nn.Conv { return nn.LoadConv(w.Sub(name), in, out, k) }
	head := func(name string, in, out int) [2]nn.Conv {
		return [2]nn.Conv{conv(name+".0", in, hiddenWidth, 3), conv(name+".2", hiddenWidth, out, 3)}
	}
	return update{corr1: conv("convc1", lookupWidth, corrWidth, 1), flow1: conv("convf1", 4, 2*flowWidth, 7), flow2: conv("convf2", 2*flowWidth, flowWidth, 3),
		join: conv("conv", corrWidth+flowWidth, joinedWidth, 3), state: head("gru", joinedWidth+4+c, hiddenWidth),
		features: head("feat_head", hiddenWidth, c), flow: head("flow_head", hiddenWidth, 4)}
}

// forward returns prelu(conv(x)) with a stride.
func (l layer) forward(be kernels.Backend, x kernels.Tensor, stride int) kernels.Tensor {
	y := l.Strided(be, x, stride)
	nn.PReLU(be, y, l.slopes)
	return y
}

// forward returns the features (N, H/8, W/8, 84) of images (N, H, W, 3).
func (f features) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	out := be.Alloc(kernels.F32, x.Dim(0), x.Dim(1)/stride, x.Dim(2)/stride, featureWidth)
	defer be.Scope()()
	x = f.first.Strided(be, x, 2)
	nn.InstanceNorm(be, x, true)
	for _, b := range f.blocks {
		y := b.conv1.Forward(be, x)
		nn.InstanceNorm(be, y, true)
		y = b.conv2.Strided(be, y, b.stride)
		nn.InstanceNorm(be, y, true)
		y = b.conv3.Forward(be, y)
		nn.InstanceNorm(be, y, true)
		if b.stride > 1 {
			x = b.shortcut.Strided(be, x, b.stride)
			nn.InstanceNorm(be, x, false)
		}
		be.Binary(y, y, x, kernels.Add)
		nn.ReLU(be, y)
		x = y
	}
	f.last.Into(be, out, x, kernels.Tensor{})
	return out
}

// forward returns the decoder's output for x (1, h, w, in): (1, 2h, 2w, out).
func (d decoder) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	out := be.Alloc(kernels.F32, 1, 2*x.Dim(1), 2*x.Dim(2), d.w.Dim(1))
	defer be.Scope()()
	x = d.first.forward(be, x, 1)
	y := d.conv1.forward(be, x, 1)
	d.side2.last(be, y)
	y = d.conv3.forward(be, y, 1)
	d.side4.last(be, y)
	d.conv5.Into(be, x, y, x)
	nn.PReLU(be, x, d.slopes)
	d.enlarge(be, out, x)
	return out
}

// last applies the layer to the last channels of x, in place.
func (l layer) last(be kernels.Backend, x kernels.Tensor) {
	defer be.Scope()()
	n, c := x.Dim(3), l.slopes.Dim(0)
	side := be.Alloc(kernels.F32, x.Dim(0), x.Dim(1), x.Dim(2), c)
	be.Copy(side, x.Narrow(3, n-c, c))
	be.Copy(x.Narrow(3, n-c, c), l.forward(be, side, 1))
}

// enlarge is the transposed convolution with kernel 4, stride 2 and padding 1. Each pixel of dst (1, 2h, 2w, out) depends on
// two rows and two columns of x (1, h, w, in), so the four pixels of a square are four 2x2 convolutions.
func (d decoder) enlarge(be kernels.Backend, dst, x kernels.Tensor) {
	h, w, in, out := x.Dim(1), x.Dim(2), d.w.Dim(0), d.w.Dim(1)
	// Row 2i sees rows i-1 and i with rows 3 and 1 of the kernel; row 2i+1 sees rows i and i+1 with rows 2 and 0.
	taps := d.w.Reshape(in, out, 2, 2, 2, 2).Permute(1, 0, 2, 3, 4, 5)
	squares := dst.Reshape(h, 2, w, 2, out)
	for odd := range 4 {
		func() {
			defer be.Scope()()
			down, right := odd/2, odd%2
			weight, y := be.Alloc(kernels.F32, out, in, 2, 2), be.Alloc(kernels.F32, 1, h, w, out)
			for k := range 4 {
				row, column := k/2, k%2
				be.Copy(weight.Narrow(2, row, 1).Narrow(3, column, 1).Reshape(out, in), kernelPlace(taps, 1-row, 1-down, 1-column, 1-right))
			}
			be.Conv(y, x, weight, kernels.ConvSpec{Bias: d.b, Top: 1 - down, Bottom: down, Left: 1 - right, Right: right})
			be.Copy(squares.Narrow(1, down, 1).Narrow(3, right, 1).Reshape(h, w, out), y.Reshape(h, w, out))
		}()
	}
}

// kernelPlace returns one place of a kernel (out, in): row 2 a + b, column 2 c + d.
func kernelPlace(taps kernels.Tensor, a, b, c, d int) kernels.Tensor {
	for _, i := range []int{a, b, c, d} {
		taps = taps.Narrow(2, i, 1).Reshape(append(append([]int{}, taps.Shape[:2]...), taps.Shape[3:]...)...)
	}
	return taps
}

// forward returns the changes of features (1, h, w, c) and flows (1, h, w, 4). found are the looked-up comparisons (1, h, w, 392).
func (u update) forward(be kernels.Backend, features, flows, found kernels.Tensor) (ofFeatures, ofFlows kernels.Tensor) {
	h, w, c := features.Dim(1), features.Dim(2), features.Dim(3)
	ofFeatures, ofFlows = be.Alloc(kernels.F32, 1, h, w, c), be.Alloc(kernels.F32, 1, h, w, 4)
	defer be.Scope()()
	leaky := func(c nn.Conv, x kernels.Tensor) kernels.Tensor {
		y := c.Forward(be, x)
		nn.LeakyReLU(be, y, leak)
		return y
	}
	join := func(parts ...kernels.Tensor) kernels.Tensor {
		n := 0
		for _, p := range parts {
			n += p.Dim(3)
		}
		x, at := be.Alloc(kernels.F32, 1, h, w, n), 0
		for _, p := range parts {
			be.Copy(x.Narrow(3, at, p.Dim(3)), p)
			at += p.Dim(3)
		}
		return x
	}
	x := leaky(u.join, join(leaky(u.corr1, found), leaky(u.flow2, leaky(u.flow1, flows))))
	x = u.state[1].Forward(be, leaky(u.state[0], join(x, flows, features)))
	u.features[1].Into(be, ofFeatures, leaky(u.features[0], x), kernels.Tensor{})
	u.flow[1].Into(be, ofFlows, leaky(u.flow[0], x), kernels.Tensor{})
	return ofFeatures, ofFlows
}
