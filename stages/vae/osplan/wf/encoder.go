package wf

import (
	"strconv"

	"latentbeam/kernels"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// encoder is "encoder".
type encoder struct {
	convIn  stream.Frames  // down1.0 (C, 24, 3, 3)
	blocks1 []imageBlock   // down1
	space   stream.Frames  // last layer of down1
	low1    stream.Frames  // connect_l1 (E, 12, 3, 3)
	between stream.Frames  // down2.0 (2C, C+E, 3, 3)
	blocks2 []stream.Block // down2
	halve   stream.Conv    // last layer of down2
	low2    stream.Frames  // connect_l2 (E, 24, 3, 3)
	middle  []stream.Layer // mid
	normOut norm           // norm_out
	convOut stream.Conv    // conv_out (2z, 4C, 3, 3, 3)
	convs   *stream.Convs
}

func loadEncoder(w *weights.Weights, c *Config) encoder {
	e := encoder{convs: &stream.Convs{Front: stream.FirstFrame}}
	l := stream.Loader{Weights: w.Sub("encoder"), Convs: e.convs, Level: 1}
	base, flow, n := c.BaseChannels, c.EncoderEnergyFlow, c.EncoderBlocks
	last := strconv.Itoa(n + 1)
	down := l.Sub("down1")
	e.convIn = down.Images("0", 8*colors, base)
	e.blocks1 = loadImageBlocks(down, 1, n, base)
	e.space = down.Sub(last).Images("conv", base, base)
	e.space.Stride = 2
	e.low1 = l.Images("connect_l1", 4*colors, flow)
	l.Level++
	down = l.Sub("down2")
	e.between = down.Images("0", base+flow, 2*base)
	e.blocks2 = loadBlocks(down, 1, n, 2*base, 2*base)
	e.halve = cube(down.Sub(last), "conv", 2*base, 2*base, 2)
	e.low2 = l.Images("connect_l2", 8*colors, flow)
	l.Level++
	e.middle = loadMiddle(l.Sub("mid"), 2*base+flow, 4*base, 4*base, c.UseAttention)
	e.normOut = loadNorm(l.Sub("norm_out"), 4*base)
	e.convOut = cube(l, "conv_out", 4*base, 2*c.LatentDim, 1)
	return e
}

// encoding is the state of encoding one clip.
type encoding struct {
	*encoder
	*stream.Stream
	haar transforms
}

// start returns the state for a clip of height x width pixels. With bands these are the pixels of this rank's rows.
func (e *encoder) start(be kernels.Backend, dt kernels.DType, height, width int, bands *stream.Bands) *encoding {
	s := e.convs.Start(be, dt, bands, func(level int) (int, int) { return height >> level, width >> level })
	return &encoding{encoder: e, Stream: s, haar: analysis(be, dt)}
}

// next takes the next frames x (1, T, H, W, 3), first 1 frame and then 4 at a time. It returns their moments (1, 1, h, w, 2z):
// mean, then log variance.
func (e *encoding) next(x kernels.Tensor, first bool) kernels.Tensor {
	s := e.Stream
	bands := e.haar.blocks3D(s, twice(s, x, first))                           // (1, n, H/2, W/2, 24)
	low1 := e.haar.blocks2D(s, channels(s, bands, 0, colors))                 // (1, n, H/4, W/4, 12)
	low2 := e.haar.blocks3D(s, twice(s, channels(s, low1, 0, colors), first)) // (1, 1, h, w, 24)
	y := stream.Through(s, e.blocks1, e.frames(e.convIn, bands))              // (1, n, H/2, W/2, C)
	y = joined(s, e.frames(e.space, y), e.frames(e.low1, low1))               // (1, n, H/4, W/4, C+E)
	y = stream.Through(s, e.blocks2, e.frames(e.between, y))                  // (1, n, H/4, W/4, 2C)
	n, h, w, c := y.Dim(1), y.Dim(2), y.Dim(3), y.Dim(4)
	room, fill := e.Input(e.halve, n, h, w)
	e.Copy(fill, y)
	y = e.Alloc(e.DType, 1, 1, h/2, w/2, c)
	e.Convolve(e.halve, y, room, kernels.Tensor{})
	y = stream.Through(s, e.middle, joined(s, y, e.frames(e.low2, low2))) // (1, 1, h, w, 4C)
	room, fill = e.Input(e.convOut, 1, h/2, w/2)
	e.normOut.Into(s, fill, y, kernels.SiLU)
	moments := e.Alloc(e.DType, 1, 1, h/2, w/2, e.convOut.W.Dim(0))
	e.Convolve(e.convOut, moments, room, kernels.Tensor{})
	return moments
}

// frames applies c to every frame of x.
func (e *encoding) frames(c stream.Frames, x kernels.Tensor) kernels.Tensor {
	stride := max(1, c.Stride)
	y := e.Alloc(e.DType, 1, x.Dim(1), x.Dim(2)/stride, x.Dim(3)/stride, c.W.Dim(0))
	e.Frames(c, y, x, kernels.Tensor{})
	return y
}
