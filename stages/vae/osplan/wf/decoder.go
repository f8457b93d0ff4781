package wf

import (
	"strconv"

	"latentbeam/kernels"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// decoder is "decoder".
type decoder struct {
	convIn  stream.Conv    // conv_in (4C, z, 3, 3, 3)
	middle  []stream.Layer // mid
	low2    side           // connect_l2
	blocks2 []stream.Block // up2
	enlarge enlarge        // up2, after its blocks
	last2   stream.Block   // up2
	low1    side           // connect_l1
	blocks1 []stream.Block // up1
	space   stream.Frames
	last1   stream.Block // up1
	out     []stream.Block
	normOut norm          // norm_out
	convOut stream.Frames // conv_out (24, C, 3, 3)
	flow    int           // channels of the flow of energy
	convs   *stream.Convs
}

// side computes frequency bands from the flow of energy: blocks and a Conv2d.
type side struct {
	blocks []stream.Block
	conv   stream.Frames
}

func loadSide(l stream.Loader, c, n, bands int) side {
	return side{loadBlocks(l, 0, n, c, c), l.Images(strconv.Itoa(n), c, bands*colors)}
}

func (d side) forward(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	y := s.Alloc(s.DType, 1, x.Dim(1), x.Dim(2), x.Dim(3), d.conv.W.Dim(0))
	defer s.Scope()()
	s.Frames(d.conv, y, stream.Through(s, d.blocks, x), kernels.Tensor{})
	return y
}

func loadDecoder(w *weights.Weights, c *Config) decoder {
	d := decoder{flow: c.DecoderEnergyFlow, convs: &stream.Convs{Front: stream.FirstFrame}}
	l := stream.Loader{Weights: w.Sub("decoder"), Convs: d.convs}
	base, n := c.BaseChannels, c.DecoderBlocks
	d.convIn = cube(l, "conv_in", c.LatentDim, 4*base, 1)
	d.middle = loadMiddle(l.Sub("mid"), 4*base, 4*base, 4*base+d.flow, c.UseAttention)
	d.low2 = loadSide(l.Sub("connect_l2"), base, c.ConnectBlocks, 8)
	up := l.Sub("up2")
	d.blocks2 = loadBlocks(up, 0, n, 4*base, 4*base)
	d.enlarge = loadEnlarge(up.Subf("%d", n), 4*base, c.TimeInterpolation)
	l.Level++
	d.last2 = loadBlock(l.Sub("up2").Subf("%d", n+1), 4*base, 4*base+d.flow)
	d.low1 = loadSide(l.Sub("connect_l1"), base, c.ConnectBlocks, 4)
	up = l.Sub("up1")
	d.blocks1 = loadBlocks(up, 0, n, 4*base, 2*base)
	d.space = up.Subf("%d", n).Images("conv", 2*base, 2*base)
	d.space.Upsample = 2
	l.Level++
	d.last1 = loadBlock(l.Sub("up1").Subf("%d", n+1), 2*base, 2*base)
	d.out = loadBlocks(l.Sub("layer"), 0, 2, 2*base, base)
	d.normOut = loadNorm(l.Sub("norm_out"), base)
	d.convOut = l.Images("conv_out", base, 8*colors)
	return d
}

// decoding is the state of decoding one clip.
type decoding struct {
	*decoder
	*stream.Stream
	haar transforms
	wait *waiting
	low  kernels.Tensor // (1, 1, 2h, 2w, 3): output of connect_l2 for the waiting frame
}

// start returns the state for a clip whose latents are h x w on this rank.
func (d *decoder) start(be kernels.Backend, dt kernels.DType, h, w int, bands *stream.Bands) *decoding {
	s := d.convs.Start(be, dt, bands, func(level int) (int, int) { return h << level, w << level })
	return &decoding{decoder: d, Stream: s, haar: synthesis(be, dt), wait: newWaiting(be, dt, h, w, d.convIn.W.Dim(0)),
		low: be.Alloc(dt, 1, 1, 2*h, 2*w, colors)}
}

// next takes the next latent frame z (1, 1, h, w, z) and returns the pixels (1, T, H, W, 3) that it completes: 1 frame for the
// first, 2 for the second, 4 for each later latent frame.
func (d *decoding) next(z kernels.Tensor) kernels.Tensor {
	first := d.wait.seen == 0
	h, w, c := z.Dim(2), z.Dim(3), d.convIn.W.Dim(0)
	room, fill := d.Input(d.convIn, 1, h, w)
	d.Copy(fill, z)
	x := d.Alloc(d.DType, 1, 1, h, w, c)
	d.Convolve(d.convIn, x, room, kernels.Tensor{})
	x = stream.Through(d.Stream, d.middle, x) // (1, 1, h, w, 4C+E)
	low := d.haar.frames3D(d.Stream, d.low2.forward(d.Stream, channels(d.Stream, x, c, d.flow)), first)
	x = stream.Through(d.Stream, d.blocks2, channels(d.Stream, x, 0, c))
	x = d.enlarge.forward(d.Stream, d.wait, x) // (1, n, 2h, 2w, 4C)
	n := x.Dim(1)
	use := low // (1, n, 2h, 2w, 3)
	if n < low.Dim(1) {
		use = low.Narrow(1, 0, n)
	}
	if n == 2 {
		use = d.Alloc(d.DType, 1, 2, 2*h, 2*w, colors)
		d.Copy(use.Narrow(1, 0, 1), d.low)
		d.Copy(use.Narrow(1, 1, 1), low.Narrow(1, 0, 1))
	}
	if !first {
		d.Copy(d.low, low.Narrow(1, 1, 1))
	}
	return d.finish(x, use, first)
}

// last returns the last two frames (1, 2, H, W, 3) of a clip with several latent frames.
func (d *decoding) last() kernels.Tensor {
	return d.finish(d.enlarge.finish(d.Stream, d.wait), d.low, false)
}

// finish returns the pixels (1, 2n, H, W, 3) of x (1, n, 2h, 2w, 4C) and low (1, n, 2h, 2w, 3), without the first frame if
// first is set. Only the pixels outlive the call.
func (d *decoding) finish(x, low kernels.Tensor, first bool) kernels.Tensor {
	s := d.Stream
	n, h, w, c := x.Dim(1), x.Dim(2), x.Dim(3), x.Dim(4)
	out := d.Alloc(d.DType, 1, n, 2*h, 2*w, d.convOut.W.Dim(0)) // (1, n, 4h, 4w, 24)
	end := d.Scope()
	x = d.last2.Forward(s, x) // (1, n, 2h, 2w, 4C+E)
	bands := d.low1.forward(s, channels(s, x, c, d.flow))
	addLow(s, bands, low)
	low = d.haar.frames2D(s, bands) // (1, n, 4h, 4w, 3)
	x = stream.Through(s, d.blocks1, channels(s, x, 0, c))
	y := d.Alloc(d.DType, 1, n, 2*h, 2*w, x.Dim(4))
	d.Frames(d.space, y, x, kernels.Tensor{})
	y = stream.Through(s, d.out, d.last1.Forward(s, y)) // (1, n, 4h, 4w, C)
	d.normOut.Into(s, y, y, kernels.SiLU)
	d.Frames(d.convOut, out, y, kernels.Tensor{})
	addLow(s, out, low)
	end()
	return d.haar.frames3D(s, out, first)
}

// addLow adds low (1, T, H, W, 3) to the low-frequency band of bands (1, T, H, W, ...).
func addLow(s *stream.Stream, bands, low kernels.Tensor) {
	band := bands.Narrow(4, 0, colors)
	s.Binary(band, band, low, kernels.Add)
}
