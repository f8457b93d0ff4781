package stream

import "latentbeam/kernels"

// Front is what precedes the first frame of a clip.
type Front int

// The fronts: zeros, or copies of the first frame.
const (
	Zeros Front = iota
	FirstFrame
)

// Convs counts the convolutions of a network and what its streams must remember. The zero Convs has zeros at the front.
type Convs struct {
	Front    Front
	memories []memory
}

// memory describes what a stream remembers for one convolution.
type memory struct {
	frames, channels int
	level            int // number of times that height and width were halved or doubled before it
	size, stride     int // of the convolution in height and width
}

// Conv is a causal convolution. A stream remembers its past frames and exchanges its edge rows.
type Conv struct {
	W, B    kernels.Tensor // (Cout, Cin, KT, K, K), (Cout)
	all     *Convs
	number  int // index of its memory
	stride  int // in height and width
	strideT int
}

// pastFrames returns how many frames are remembered.
func (c Conv) pastFrames() int { return c.all.memories[c.number].frames }

// Stream is the state of one clip that runs through a network chunk by chunk.
type Stream struct {
	kernels.Backend
	DType kernels.DType
	Last  bool             // this is the clip's last chunk: nothing needs to be remembered
	Err   error            // error of an exchange with neighbours
	bands *Bands           // nil: this device has all rows
	past  []kernels.Tensor // one for each memory: (1, frames, rows, W, C)
	used  []int            // number of frames in use, for each memory
}

// Start returns a stream with activations of type dt. size returns the number of rows and columns of a level on this rank. The
// memory is allocated in the scope of the call.
func (p *Convs) Start(be kernels.Backend, dt kernels.DType, bands *Bands, size func(level int) (h, w int)) *Stream {
	s := &Stream{Backend: be, DType: dt, bands: bands, used: make([]int, len(p.memories))}
	for _, m := range p.memories {
		h, w := size(m.level)
		e := bands.edges(m.size, m.stride)
		s.past = append(s.past, be.Alloc(dt, 1, m.frames, e.above+h+e.below, w, m.channels))
	}
	return s
}

// front returns how many frames precede those of the present chunk.
func (s *Stream) front(c Conv) int {
	if held := s.used[c.number]; held > 0 || c.all.Front == Zeros {
		return held
	}
	return c.W.Dim(2) - 1
}

func (s *Stream) edges(c Conv) edges { return s.bands.edges(c.W.Dim(3), c.stride) }

// Input allocates the input of a convolution. fill is the part (1, t, h, w, Cin) that the caller must fill; the rest is for
// remembered frames and neighbours' rows.
func (s *Stream) Input(c Conv, t, h, w int) (room, fill kernels.Tensor) {
	e, front := s.edges(c), s.front(c)
	room = s.Alloc(s.DType, 1, front+t, e.above+h+e.below, w, c.W.Dim(1))
	return room, room.Narrow(1, front, t).Narrow(2, e.above, h)
}

// Convolve computes dst (1, T', h, w, Cout) from the room that Input returned, and adds residual, which may be zero.
func (s *Stream) Convolve(c Conv, dst, room, residual kernels.Tensor) {
	e, front, pad := s.edges(c), s.front(c), c.W.Dim(3)/2
	chunk := room.Narrow(1, front, room.Dim(1)-front)
	s.swap(chunk, e)
	switch held := s.used[c.number]; {
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
		spec.Front = c.pastFrames() - front
	}
	s.Conv(dst, room, c.W, spec)
	s.Remember(c, room)
}

// Remember stores the last frames of a convolution's input for the next chunk. room is what Input returned.
func (s *Stream) Remember(c Conv, room kernels.Tensor) {
	if s.Last {
		return
	}
	n := min(c.pastFrames(), room.Dim(1))
	s.Copy(s.past[c.number].Narrow(1, 0, n), room.Narrow(1, room.Dim(1)-n, n))
	s.used[c.number] = n
}

// Frames is a convolution for single frames. With Stride 2 the input has a row and a column of zeros below and on the right.
// With Upsample 2 frames are first enlarged by nearest neighbour.
type Frames struct {
	W, B             kernels.Tensor // (Cout, Cin, K, K), (Cout)
	Stride, Upsample int            // 0: 1
}

// Frames computes dst (1, T, h', w', Cout): the convolution of every frame of x (1, T, h, w, Cin), plus residual, which may be
// zero.
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
	wide := s.Alloc(s.DType, 1, t, e.above+2*h+e.below, 2*w, c.W.Dim(0)) // with one row of each neighbour's enlarged pair
	s.Conv(images(wide), images(x), c.W, spec)
	own := wide.Narrow(2, e.above, 2*h)
	if residual.IsZero() {
		s.Copy(dst, own)
		return
	}
	s.Binary(dst, residual, own, kernels.Add)
}

// Around returns x (1, T, h, w, C) with one row of each neighbour around its own rows, and the number of rows above. Without
// bands it returns x.
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
