package raft

import (
	"context"
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/flow"
	"latentbeam/stages/nn"
)

// Image is an image prepared for RAFT.
type Image struct {
	Height, Width int       // padded to multiples of 8
	pixels        []float32 // (Height, Width, 3), in [-1, 1]
	features      flow.Features
}

// Padded returns the padded size of images.
func Padded(height, width int) (int, int) {
	return flow.Padded(height, stride), flow.Padded(width, stride)
}

// Prepare computes the features of an image rgb (height, width, 3). Its edges are repeated to a multiple of 8 pixels.
func (r *RAFT) Prepare(be kernels.Backend, rgb []byte, height, width int) (*Image, error) {
	m := &Image{}
	m.Height, m.Width = Padded(height, width)
	if min(m.Height, m.Width) < MinSide {
		return nil, fmt.Errorf("frames of %dx%d pixels are too small for RAFT, which needs %d of each side", width, height, MinSide-stride+1)
	}
	m.pixels = flow.Pad(rgb, height, width, stride)
	for i, v := range m.pixels {
		m.pixels[i] = 2*(v/255) - 1
	}
	defer be.Scope()()
	rows, columns := m.Height/stride, m.Width/stride
	m.features = flow.Features{Rows: rows, Columns: columns, C: featureWidth, Values: make([]float32, rows*columns*featureWidth)}
	return m, be.Download(m.features.Values, r.features.encode(be, m.upload(be)))
}

func (m *Image) upload(be kernels.Backend) kernels.Tensor {
	t := be.Alloc(kernels.F32, 1, m.Height, m.Width, channelsOfRGB)
	be.Upload(t, m.pixels)
	return t
}

// Flow returns where the pixels of a are in b: (Height, Width, 2), x and y in pixels. iterations is the number of refinements.
func (r *RAFT) Flow(ctx context.Context, be kernels.Backend, a, b *Image, iterations int) ([]float32, error) {
	defer be.Scope()()
	rows, columns := a.Height/stride, a.Width/stride
	alike, err := flow.Correlate(be, a.features, b.features, radius)
	if err != nil {
		return nil, err
	}
	defer alike.Release()
	s := r.newState(be, a.upload(be))
	now := make([]float32, rows*columns*2)
	found, delta := make([]float32, rows*columns*lookupWidth), make([]float32, len(now))
	for range iterations {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		alike.LookUp(found, now)
		if err := r.refine(be, s, found, now, delta); err != nil {
			return nil, err
		}
		for i, d := range delta {
			now[i] += d
		}
	}
	mask := make([]float32, rows*columns*learntSize)
	if err := be.Download(mask, r.maskOf(be, s)); err != nil {
		return nil, err
	}
	return upsample(now, mask, rows, columns), nil
}

// state is the network's state for a pair of images between refinements.
type state struct {
	hidden kernels.Tensor // (1, H, W, 256): the recurrent state, then the motion features
	reset  kernels.Tensor // like hidden, with the reset state
	halves [2]half
}

// half is one half of an update: its weights in the order of use, and its sums over the context, which are constant.
type half struct {
	zr, q       kernels.Tensor // (256, 256, h, w) for z and r, (128, 256, h, w)
	ofZR, ofQ   kernels.Tensor // (1, H, W, 256), (1, H, W, 128)
	rows, sides int
}

// newState prepares the refinement of the flow from an image. It computes once everything that depends only on the image's
// context.
func (r *RAFT) newState(be kernels.Backend, image kernels.Tensor) *state {
	rows, columns := image.Dim(1)/stride, image.Dim(2)/stride
	s := &state{hidden: be.Alloc(kernels.F32, 1, rows, columns, stateWidth+motionWidth),
		reset: be.Alloc(kernels.F32, 1, rows, columns, stateWidth+motionWidth)}
	for i, g := range []gru{r.across, r.down} {
		h := half{rows: g.z.W.Dim(2), sides: g.z.W.Dim(3),
			zr: be.Alloc(kernels.F32, 2*stateWidth, stateWidth+motionWidth, g.z.W.Dim(2), g.z.W.Dim(3)),
			q:  be.Alloc(kernels.F32, stateWidth, stateWidth+motionWidth, g.z.W.Dim(2), g.z.W.Dim(3)),
		}
		h.ofZR = be.Alloc(kernels.F32, 1, rows, columns, 2*stateWidth)
		h.ofQ = be.Alloc(kernels.F32, 1, rows, columns, stateWidth)
		s.halves[i] = h
	}
	defer be.Scope()()
	context := r.context.encode(be, image)
	be.Copy(s.part(0), context.Narrow(3, 0, stateWidth))
	nn.Tanh(be, s.part(0))
	constant := be.Alloc(kernels.F32, 1, rows, columns, stateWidth)
	be.Copy(constant, context.Narrow(3, stateWidth, stateWidth))
	nn.ReLU(be, constant)
	for i, g := range []gru{r.across, r.down} {
		h := s.halves[i]
		for j, c := range []nn.Conv{g.z, g.r, g.q} {
			dst, sums := h.q, h.ofQ
			if j < 2 {
				dst, sums = h.zr.Narrow(0, j*stateWidth, stateWidth), h.ofZR.Narrow(3, j*stateWidth, stateWidth)
			}
			be.Copy(dst.Narrow(1, 0, stateWidth), c.W.Narrow(1, 0, stateWidth))
			be.Copy(dst.Narrow(1, stateWidth, motionWidth), c.W.Narrow(1, 2*stateWidth, motionWidth))
			be.Conv(sums, constant, c.W.Narrow(1, stateWidth, stateWidth), h.spec(c.B, kernels.Tensor{}))
		}
	}
	return s
}

func (h half) spec(bias, residual kernels.Tensor) kernels.ConvSpec {
	return kernels.ConvSpec{Bias: bias, Top: h.rows / 2, Bottom: h.rows / 2, Left: h.sides / 2, Right: h.sides / 2, Residual: residual}
}

// part returns the recurrent state (0) or the motion features (1).
func (s *state) part(i int) kernels.Tensor { return s.hidden.Narrow(3, i*stateWidth, stateWidth) }

// refine updates the state with looked-up comparisons (H W, 324) and the current flow (H W, 2), and writes the change of the
// flow.
func (r *RAFT) refine(be kernels.Backend, s *state, found, flow, delta []float32) error {
	defer be.Scope()()
	rows, columns := s.hidden.Dim(1), s.hidden.Dim(2)
	r.motion.write(be, s.part(1), found, flow)
	be.Copy(s.reset.Narrow(3, stateWidth, motionWidth), s.part(1))
	for _, h := range s.halves {
		h.update(be, s)
	}
	hidden := be.Alloc(kernels.F32, 1, rows, columns, stateWidth)
	be.Copy(hidden, s.part(0))
	return be.Download(delta, convReLUConv(be, r.delta, hidden))
}

// convReLUConv returns conv(relu(conv(x))).
func convReLUConv(be kernels.Backend, c [2]nn.Conv, x kernels.Tensor) kernels.Tensor {
	y := c[0].Forward(be, x)
	nn.ReLU(be, y)
	return c[1].Forward(be, y)
}

// maskOf returns (1, H, W, 576): for each of the 64 pixels of a place, the weights of the neighbouring flows.
func (r *RAFT) maskOf(be kernels.Backend, s *state) kernels.Tensor {
	hidden := be.Alloc(kernels.F32, 1, s.hidden.Dim(1), s.hidden.Dim(2), stateWidth)
	be.Copy(hidden, s.part(0))
	return convReLUConv(be, r.mask, hidden)
}

// write writes the motion features to dst (1, H, W, 128).
func (m motion) write(be kernels.Backend, dst kernels.Tensor, found, flow []float32) {
	defer be.Scope()()
	rows, columns := dst.Dim(1), dst.Dim(2)
	upload := func(values []float32, c int) kernels.Tensor {
		t := be.Alloc(kernels.F32, 1, rows, columns, c)
		be.Upload(t, values)
		return t
	}
	now := upload(flow, 2)
	both := be.Alloc(kernels.F32, 1, rows, columns, 192+64)
	into := func(dst kernels.Tensor, c nn.Conv, x kernels.Tensor) {
		c.Into(be, dst, x, kernels.Tensor{})
		nn.ReLU(be, dst)
	}
	corr, ofFlow := be.Alloc(kernels.F32, 1, rows, columns, 256), be.Alloc(kernels.F32, 1, rows, columns, 128)
	into(corr, m.corr1, upload(found, lookupWidth))
	into(both.Narrow(3, 0, 192), m.corr2, corr)
	into(ofFlow, m.flow1, now)
	into(both.Narrow(3, 192, 64), m.flow2, ofFlow)
	into(dst.Narrow(3, 0, motionWidth-2), m.out, both)
	be.Copy(dst.Narrow(3, motionWidth-2, 2), now)
}

// update is one half of the recurrent update: h = (1 - z) h + z q.
func (h half) update(be kernels.Backend, s *state) {
	defer be.Scope()()
	state, reset := s.part(0), s.reset.Narrow(3, 0, stateWidth)
	zr := be.Alloc(kernels.F32, h.ofZR.Shape...)
	be.Conv(zr, s.hidden, h.zr, h.spec(kernels.Tensor{}, h.ofZR))
	be.Unary(zr, zr, kernels.Sigmoid)
	z, r := zr.Narrow(3, 0, stateWidth), zr.Narrow(3, stateWidth, stateWidth)
	be.Binary(reset, state, r, kernels.Mul)
	q := be.Alloc(kernels.F32, h.ofQ.Shape...)
	be.Conv(q, s.reset, h.q, h.spec(kernels.Tensor{}, h.ofQ))
	nn.Tanh(be, q)
	be.Binary(q, q, z, kernels.Mul)
	be.Binary(reset, state, z, kernels.Mul)
	minus := be.Alloc(kernels.F32, 1, 1, 1, 1)
	be.Upload(minus, []float32{-1})
	be.Binary(reset, reset, minus.Expand(reset.Shape...), kernels.Mul)
	be.Binary(state, state, reset, kernels.Add)
	be.Binary(state, state, q, kernels.Add)
}

// upsample returns the flow in full size (8 H, 8 W, 2) for flow (H W, 2). mask (H W, 9, 64) has the weights before the softmax
// over the 9 neighbours.
func upsample(flow, mask []float32, rows, columns int) []float32 {
	out := make([]float32, rows*columns*stride*stride*2)
	const pixels = stride * stride
	for at := range rows * columns {
		y, x := at/columns, at%columns
		for i := range pixels {
			var weights [neighbours]float64
			most := math.Inf(-1)
			for n := range weights {
				weights[n] = 0.25 * float64(mask[(at*neighbours+n)*pixels+i])
				most = max(most, weights[n])
			}
			sum, u, v := 0.0, 0.0, 0.0
			for n, w := range weights {
				w = math.Exp(w - most)
				sum += w
				ny, nx := y+n/3-1, x+n%3-1
				if ny >= 0 && ny < rows && nx >= 0 && nx < columns {
					u += w * float64(flow[(ny*columns+nx)*2])
					v += w * float64(flow[(ny*columns+nx)*2+1])
				}
			}
			to := ((y*stride+i/stride)*columns*stride + x*stride + i%stride) * 2
			out[to], out[to+1] = float32(stride*u/sum), float32(stride*v/sum)
		}
	}
	return out
}

// Rehearse makes the device calls of Prepare and Flow for images of this size, on a backend that computes nothing. It shows the
// memory and the work of one more image. Sides must be multiples of 8 (Padded).
func (r *RAFT) Rehearse(be kernels.Backend, height, width, iterations int) error {
	defer be.Scope()()
	m := &Image{Height: height, Width: width}
	func() {
		defer be.Scope()()
		r.features.encode(be, m.upload(be))
	}()
	flow.Rehearse(be, height/stride*width/stride, featureWidth)
	s := r.newState(be, m.upload(be))
	for range iterations {
		if err := r.refine(be, s, nil, nil, nil); err != nil {
			return err
		}
	}
	r.maskOf(be, s)
	return be.Wait()
}

// HostBytes returns the host memory of Flow for images of this size, besides the device's tensors. Most of it is the
// comparison, which grows with the square of the pixels.
func HostBytes(height, width int) int64 {
	rows, columns := height/stride, width/stride
	const perPlace = 2*featureWidth + lookupWidth + learntSize + 2*stride*stride*channelsOfRGB + 2*stride*stride
	return flow.Bytes(rows, columns) + int64(rows)*int64(columns)*perPlace*4
}
