package stream

import "latentbeam/kernels"

// Front is what a clip has in front of its first frame.
type Front int

// The fronts: zeros, or copies of the first frame.
const (
	Zeros Front = iota
	FirstFrame
)

// Convs are the convolutions of a network, counted for what its streams will remember. The zero Convs has zeros in front.
type Convs struct {
	Front    Front
	memories []memory
}

// memory is what a stream remembers for a convolution.
type memory struct {
	frames, channels int
	level            int // how often height and width were halved or doubled before it
	size, stride     int // of the convolution in height and width
}

// Conv is a causal convolution, over frames that a stream remembers and over the rows and columns around.
type Conv struct {
	W, B    kernels.Tensor // (Cout, Cin, KT, K, K), (Cout)
	all     *Convs
	number  int // of its memory
	stride  int // in height and width
	strideT int
}

// keep returns how many frames are remembered.
func (c Conv) keep() int { return c.all.memories[c.number].frames }

// Stream is a clip on its way through a network, chunk by chunk.
type Stream struct {
	kernels.Backend
	DType kernels.DType
	Last  bool             // the chunk is the clip's last: nothing of it need be remembered
	Err   error            // of an exchange with neighbours
	bands *Bands           // nil: all rows are here
	past  []kernels.Tensor // of each memory: (1, frames, rows, W, C)
	held  []int            // how many frames of it are in use
}

// Start returns a stream of activations of type dt; size tells how many rows and columns a level has here. What it
// remembers lives in the scope of the call.
func (p *Convs) Start(be kernels.Backend, dt kernels.DType, bands *Bands, size func(level int) (h, w int)) *Stream {
	s := &Stream{Backend: be, DType: dt, bands: bands, held: make([]int, len(p.memories))}
	for _, m := range p.memories {
		h, w := size(m.level)
		e := bands.edges(m.size, m.stride)
		s.past = append(s.past, be.Alloc(dt, 1, m.frames, e.above+h+e.below, w, m.channels))
	}
	return s
}

// front returns how many frames stand before those of the present chunk.
func (s *Stream) front(c Conv) int {
	if held := s.held[c.number]; held > 0 || c.all.Front == Zeros {
		return held
	}
	return c.W.Dim(2) - 1
}

func (s *Stream) edges(c Conv) edges { return s.bands.edges(c.W.Dim(3), c.stride) }

// Input returns room for the input of a convolution, and the view (1, t, h, w, Cin) of it that is to be filled: the
// rest is for remembered frames and for the rows of neighbours.
func (s *Stream) Input(c Conv, t, h, w int) (room, fill kernels.Tensor) {
	e, front := s.edges(c), s.front(c)
	room = s.Alloc(s.DType, 1, front+t, e.above+h+e.below, w, c.W.Dim(1))
	return room, room.Narrow(1, front, t).Narrow(2, e.above, h)
}

// Convolve computes dst (1, T', h, w, Cout) from what Input returned, and adds residual where it is given.
func (s *Stream) Convolve(c Conv, dst, room, residual kernels.Tensor) {
	e, front, pad := s.edges(c), s.front(c), c.W.Dim(3)/2
	chunk := room.Narrow(1, front, room.Dim(1)-front)
	s.swap(chunk, e)
	switch held := s.held[c.number]; {
	case held > 0:
		s.Copy(room.Narrow(1, 0, held), s.past[c.number].Narrow(1, 0, held))
	case front > 0:
		first := room.Narrow(1, 0, front)
		s.Copy(first, chunk.Narrow(1, 0, 1).Expand(first.Shape...))
	}
	spec := kernels.ConvSpec{Bias: c.B, StrideT: c.strideT, Stride: c.stride, Residual: residual, Left: pad, Right: pad,
		Top: e.up - e.above, Bottom: e.down - e.below}
	if c.stride > 1 {
		spec.Left = 0
	}
	if c.strideT == 1 && c.all.Front == Zeros {
		spec.Front = c.keep() - front
	}
	s.Conv(dst, room, c.W, spec)
	s.Remember(c, room)
}

// Remember keeps the last frames of the input of a convolution, which Input returned.
func (s *Stream) Remember(c Conv, room kernels.Tensor) {
	if s.Last {
		return
	}
	n := min(c.keep(), room.Dim(1))
	s.Copy(s.past[c.number].Narrow(1, 0, n), room.Narrow(1, room.Dim(1)-n, n))
	s.held[c.number] = n
}

// Frames is a convolution of single frames. With Stride 2 there is one row and column of zeros below and to the right,
// with Upsample 2 frames are enlarged by nearest neighbour first.
type Frames struct {
	W, B             kernels.Tensor // (Cout, Cin, K, K), (Cout)
	Stride, Upsample int            // 0: 1
}

// Frames computes dst (1, T, h', w', Cout) = conv of the frames of x (1, T, h, w, Cin), plus residual where it is given.
func (s *Stream) Frames(c Frames, dst, x, residual kernels.Tensor) {
	t, h, w, pad := x.Dim(1), x.Dim(2), x.Dim(3), c.W.Dim(3)/2
	e := s.bands.edges(c.W.Dim(3), max(1, c.Stride))
	spec := kernels.ConvSpec{Bias: c.B, Stride: c.Stride, Upsample: c.Upsample, Top: e.up - e.above, Bottom: e.down - e.below,
		Left: pad, Right: pad}
	if c.Stride > 1 {
		spec.Left = 0
	}
	images := func(x kernels.Tensor) kernels.Tensor { return x.Reshape(x.Shape[1:]...) } // (T, H, W, C)
	defer s.Scope()()
	if e.above+e.below > 0 || e.sends(s.bands) {
		x = s.around(x, e)
	}
	if c.Upsample < 2 || e.above+e.below == 0 {
		if !residual.IsZero() {
			spec.Residual = images(residual)
		}
		s.Conv(images(dst), images(x), c.W, spec)
		return
	}
	wide := s.Alloc(s.DType, 1, t, e.above+2*h+e.below, 2*w, c.W.Dim(0)) // with the nearer row of each neighbour's two
	s.Conv(images(wide), images(x), c.W, spec)
	own := wide.Narrow(2, e.above, 2*h)
	if residual.IsZero() {
		s.Copy(dst, own)
		return
	}
	s.Binary(dst, residual, own, kernels.Add)
}

// Around returns x (1, T, h, w, C) with a row of each neighbour around its own, and how many of them are above. A device
// alone gets x back.
func (s *Stream) Around(x kernels.Tensor) (room kernels.Tensor, above int) {
	e := s.bands.edges(3, 1)
	if e.above+e.below == 0 {
		return x, 0
	}
	return s.around(x, e), e.above
}

func (s *Stream) around(x kernels.Tensor, e edges) kernels.Tensor {
	room := s.Alloc(s.DType, 1, x.Dim(1), e.above+x.Dim(2)+e.below, x.Dim(3), x.Dim(4))
	s.Copy(room.Narrow(2, e.above, x.Dim(2)), x)
	s.swap(room, e)
	return room
}
