package musiq

import (
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vit"
	"latentbeam/stages/weights"
)

// Sizes of the ResNet. All published files have these values.
const (
	stemWidth  = 64
	blockWidth = 256
	groups     = 32
	stemSide   = patchSide / 2 // after the first convolution
	tokenSide  = patchSide / 4 // after the pooling
	rootEps    = 1e-6
	blockEps   = 1e-4
	normEps    = 1e-6
	numScales  = 3
	// chunkPatches is the number of patches that pass the ResNet at a time. The result does not depend on it.
	chunkPatches = 128
)

// MUSIQ is the network with its weights on a device. It is read-only and safe for use by any backend of the device.
type MUSIQ struct {
	Config
	root, conv1, conv2, conv3, shortcut stdConv
	embed                               nn.Linear      // (C, 8 8 256)
	places, scales, class               kernels.Tensor // (100, C), (3, C), (1, 1, C)
	layers                              []vit.Layer
	last                                vit.Norm
	head                                nn.Linear // (1, C)
}

// stdConv is a convolution followed by a norm. Its weights (out, in, k, k) are standardised for each output before use.
type stdConv struct {
	w    kernels.Tensor
	norm nn.GroupNorm
}

// Load loads the tensors by pyiqa's names. The error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*MUSIQ, error) {
	c := cfg.Hidden
	conv := func(w *weights.Weights, name, norm string, in, out, k int, eps float32) stdConv {
		return stdConv{w.Tensor(name+".weight", out, in, k, k), nn.LoadGroupNorm(w.Sub(norm), out, groups, eps)}
	}
	block, t := w.Sub("block1"), w.Sub("transformer_encoder")
	m := &MUSIQ{Config: cfg,
		root:     conv(w, "conv_root", "gn_root", channels, stemWidth, 7, rootEps),
		conv1:    conv(block, "conv1", "gn1", stemWidth, stemWidth, 1, blockEps),
		conv2:    conv(block, "conv2", "gn2", stemWidth, stemWidth, 3, blockEps),
		conv3:    conv(block, "conv3", "gn3", stemWidth, blockWidth, 1, blockEps),
		shortcut: conv(block, "conv_proj", "gn_proj", stemWidth, blockWidth, 1, blockEps),
		embed:    nn.LoadLinear(w.Sub("embedding"), tokenSide*tokenSide*blockWidth, c),
		places:   t.Tensor("posembed_input.position_emb", 1, gridSide*gridSide, c),
		scales:   t.Tensor("scaleembed_input.scale_emb", numScales, c),
		class:    t.Tensor("cls", 1, 1, c),
		last:     vit.LoadNorm(t.Sub("encoder_norm"), c, normEps),
		head:     nn.LoadLinear(w.Sub("head"), c, 1),
	}
	for i := range cfg.Layers {
		l := t.Subf("transformer.encoderblock_%d", i)
		linear := func(name string, in, out int) nn.Linear { return nn.LoadLinear(l.Sub(name), in, out) }
		m.layers = append(m.layers, vit.Layer{Norm1: vit.LoadNorm(l.Sub("norm1"), c, normEps), Norm2: vit.LoadNorm(l.Sub("norm2"), c, normEps),
			Q: linear("attention.query", c, c), K: linear("attention.key", c, c), V: linear("attention.value", c, c),
			Out: linear("attention.out", c, c), First: linear("mlp.fc1", c, cfg.Intermediate), Second: linear("mlp.fc2", cfg.Intermediate, c),
			Heads: c / headWidth, Act: nn.GELU})
	}
	w.Hint("the weights are those of MUSIQ for SPAQ, KonIQ or PaQ-2-PiQ, which give one score: musiq_spaq_ckpt-358bb6af.pth of pyiqa after " +
		"`latentbeam convert`")
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("load MUSIQ: %w", err)
	}
	return m, nil
}

// Rate returns the quality (B, 1) of images, from 0 to about 100, in the scope open at the call. patches (B, N, 32, 32, 3) are
// the patches of their views.
func (m *MUSIQ) Rate(be kernels.Backend, patches []float32, v *Views) (kernels.Tensor, error) {
	n, c := len(v.Places), m.Hidden
	b := len(patches) / v.Len()
	out := be.Alloc(kernels.F32, b, 1)
	defer be.Scope()()
	x := be.Alloc(kernels.F32, b, 1+n, c)
	if err := m.tokens(be, x, patches, v); err != nil {
		return kernels.Tensor{}, err
	}
	final := len(m.layers) - 1
	for _, l := range m.layers[:final] {
		l.Forward(be, x, kernels.Tensor{})
	}
	class := m.layers[final].Token(be, x, 0).Reshape(b, c)
	m.last.Into(be, class, class)
	m.head.Into(be, out, class)
	return out, nil
}

// tokens fills x (B, 1+N, C): the class token, then the patches.
func (m *MUSIQ) tokens(be kernels.Backend, x kernels.Tensor, patches []float32, v *Views) error {
	defer be.Scope()()
	b, n, c := x.Dim(0), x.Dim(1)-1, x.Dim(2)
	be.Copy(x.Narrow(1, 0, 1), m.class.Expand(b, 1, c))
	where, which := be.Alloc(kernels.F32, n, c), be.Alloc(kernels.F32, n, c)
	be.Gather(where, m.places.Reshape(gridSide*gridSide, c), v.Places)
	be.Gather(which, m.scales, v.Scales)
	be.Binary(where, where, which, kernels.Add)
	all := be.Alloc(kernels.F32, b*n, c)
	convs, err := m.standardised(be)
	if err != nil {
		return err
	}
	const size = patchSide * patchSide * channels
	for from := 0; from < b*n; from += chunkPatches {
		some := min(chunkPatches, b*n-from)
		if err := m.embedSome(be, all.Narrow(0, from, some), patches[from*size:][:some*size], convs); err != nil {
			return err
		}
	}
	tokens := all.Reshape(b, n, c)
	be.Binary(tokens, tokens, where.Reshape(1, n, c).Expand(b, n, c), kernels.Add)
	be.Copy(x.Narrow(1, 1, n), tokens)
	return nil
}

// standardised returns the standardised weights of the ResNet: root, the block's three convolutions, and its shortcut.
func (m *MUSIQ) standardised(be kernels.Backend) (all [5]kernels.Tensor, err error) {
	for i, c := range []stdConv{m.root, m.conv1, m.conv2, m.conv3, m.shortcut} {
		values := make([]float32, c.w.Len())
		if err := be.Download(values, c.w); err != nil {
			return all, err
		}
		each := len(values) / c.w.Dim(0)
		for o := range c.w.Dim(0) {
			standardise(values[o*each:][:each])
		}
		all[i] = be.Alloc(kernels.F32, c.w.Shape...)
		be.Upload(all[i], values)
	}
	return all, nil
}

// standardise subtracts the mean and divides by the sample standard deviation plus 1e-5.
func standardise(values []float32) {
	mean, sum := 0.0, 0.0
	for _, v := range values {
		mean += float64(v)
	}
	mean /= float64(len(values))
	for _, v := range values {
		d := float64(v) - mean
		sum += float64(d * d)
	}
	by := math.Sqrt(sum/float64(len(values)-1)) + 1e-5
	for i, v := range values {
		values[i] = float32((float64(v) - mean) / by)
	}
}

// embedSome writes the embeddings (n, C) of patches.
func (m *MUSIQ) embedSome(be kernels.Backend, dst kernels.Tensor, patches []float32, convs [5]kernels.Tensor) error {
	defer be.Scope()()
	n := dst.Dim(0)
	images := be.Alloc(kernels.F32, n, patchSide, patchSide, channels)
	be.Upload(images, patches)
	x, err := m.stem(be, images, convs[0])
	if err != nil {
		return err
	}
	conv := func(x kernels.Tensor, i int, c stdConv) kernels.Tensor {
		side := convs[i].Dim(2) / 2
		y := be.Alloc(kernels.F32, n, tokenSide, tokenSide, convs[i].Dim(0))
		be.Conv(y, x, convs[i], kernels.ConvSpec{Top: side, Left: side, Bottom: side, Right: side})
		c.norm.Into(be, y, y, kernels.Identity)
		return y
	}
	y := conv(x, 1, m.conv1)
	nn.ReLU(be, y)
	y = conv(y, 2, m.conv2)
	nn.ReLU(be, y)
	y = conv(y, 3, m.conv3)
	be.Binary(y, y, conv(x, 4, m.shortcut), kernels.Add)
	nn.ReLU(be, y)
	m.embed.Into(be, dst, y.Reshape(n, tokenSide*tokenSide*blockWidth))
	return nil
}

// stem returns (n, 8, 8, 64): the first convolution, its norm, and max pooling over 3x3 places with stride 2.
func (m *MUSIQ) stem(be kernels.Backend, images, w kernels.Tensor) (kernels.Tensor, error) {
	n := images.Dim(0)
	out := be.Alloc(kernels.F32, n, tokenSide, tokenSide, stemWidth)
	defer be.Scope()()
	x := be.Alloc(kernels.F32, n, stemSide, stemSide, stemWidth)
	be.Conv(x, images, w, kernels.ConvSpec{Stride: 2, Top: 2, Left: 2, Bottom: 3, Right: 3})
	m.root.norm.Into(be, x, x, kernels.Identity)
	if nn.Rehearses(be) { // only the calls are counted, there are no values
		be.Upload(out, nil)
		return out, be.Download(nil, x)
	}
	values, pooled := make([]float32, x.Len()), make([]float32, out.Len())
	if err := be.Download(values, x); err != nil {
		return out, err
	}
	for i := range n {
		pool(pooled[i*tokenSide*tokenSide*stemWidth:], values[i*stemSide*stemSide*stemWidth:])
	}
	be.Upload(out, pooled)
	return out, nil
}

// pool writes the maximum of 3x3 places, at least 0. Places to the right of and below the image are 0.
func pool(dst, src []float32) {
	for y := range tokenSide {
		for x := range tokenSide {
			to := dst[(y*tokenSide+x)*stemWidth:][:stemWidth]
			for down := 2 * y; down <= min(2*y+2, stemSide-1); down++ {
				for right := 2 * x; right <= min(2*x+2, stemSide-1); right++ {
					for c, v := range src[(down*stemSide+right)*stemWidth:][:stemWidth] {
						to[c] = max(to[c], v)
					}
				}
			}
		}
	}
}
