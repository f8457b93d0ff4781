package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// conv is a convolution over time, with zero frames in front of a clip. A stream remembers the last frames of its
// input.
type conv struct {
	w, b   kernels.Tensor // (Cout, Cin, KT, K, K), (Cout)
	number int            // of its memory
	keep   int            // frames that are remembered
	stride int            // in time
}

// memory is what a stream remembers for a convolution.
type memory struct {
	frames, channels int
	level            int  // how often height and width were halved or doubled before it
	edge             bool // it holds rows of neighbours too
}

// loader reads a network and counts its memories.
type loader struct {
	*nn.Weights
	memories *[]memory
	level    int // of the network, see memory
}

func (l loader) sub(name string) loader {
	l.Weights = l.Sub(name)
	return l
}

func (l loader) subf(format string, args ...any) loader {
	l.Weights = l.Subf(format, args...)
	return l
}

// cube is a convolution of 3x3x3.
func (l loader) cube(name string, in, out int) conv { return l.conv(name, in, out, 3, 2, 1) }

// frames is a convolution over three frames of each position.
func (l loader) frames(name string, in, out, keep, stride int) conv {
	return l.conv(name, in, out, 1, keep, stride)
}

func (l loader) conv(name string, in, out, size, keep, stride int) conv {
	*l.memories = append(*l.memories, memory{keep, in, l.level, size > 1})
	w := l.Sub(name)
	return conv{w: w.Tensor("weight", out, in, 3, size, size), b: w.Tensor("bias", out),
		number: len(*l.memories) - 1, keep: keep, stride: stride}
}

// stream is a clip on its way through a network, chunk by chunk.
type stream struct {
	be    kernels.Backend
	dt    kernels.DType
	bands *Bands           // nil: all rows are here
	past  []kernels.Tensor // of each memory: (1, frames, rows, W, C)
	held  []int            // how many frames of it are in use
	err   error            // of an exchange with neighbours
}

// begin returns a stream; size tells how many rows and columns a level has here. What it remembers lives in the scope of
// the call.
func begin(be kernels.Backend, dt kernels.DType, memories []memory, bands *Bands, size func(level int) (h, w int)) *stream {
	s := &stream{be: be, dt: dt, bands: bands, held: make([]int, len(memories))}
	for _, m := range memories {
		h, w := size(m.level)
		if m.edge {
			h += bands.above() + bands.below()
		}
		s.past = append(s.past, be.Alloc(dt, 1, m.frames, h, w, m.channels))
	}
	return s
}

// input returns room for the input of a convolution, and the view (1, t, h, w, Cin) of it that is to be filled: the
// rest is for remembered frames and for the rows of neighbours.
func (s *stream) input(c conv, t, h, w int) (room, fill kernels.Tensor) {
	above, below := s.edges(c)
	room = s.be.Alloc(s.dt, 1, s.held[c.number]+t, above+h+below, w, c.w.Dim(1))
	return room, room.Narrow(1, s.held[c.number], t).Narrow(2, above, h)
}

// edges returns how many rows of neighbours a convolution sees.
func (s *stream) edges(c conv) (above, below int) {
	if c.w.Dim(3) == 1 {
		return 0, 0
	}
	return s.bands.above(), s.bands.below()
}

// conv computes dst (1, T', h, w, Cout) from what input returned, and adds residual where it is given.
func (s *stream) conv(c conv, dst, room, residual kernels.Tensor) {
	above, below := s.edges(c)
	held, pad := s.held[c.number], c.w.Dim(3)/2
	if held > 0 {
		s.be.Copy(room.Narrow(1, 0, held), s.past[c.number].Narrow(1, 0, held))
	}
	s.swap(room.Narrow(1, held, room.Dim(1)-held), above, below)
	spec := kernels.ConvSpec{Bias: c.b, StrideT: c.stride, Residual: residual, Left: pad, Right: pad,
		Top: pad - above, Bottom: pad - below}
	if c.stride == 1 {
		spec.Front = c.keep - held
	}
	s.be.Conv(dst, room, c.w, spec)
	s.remember(c, room)
}

// remember keeps the last frames of the input of a convolution.
func (s *stream) remember(c conv, room kernels.Tensor) {
	n := min(c.keep, room.Dim(1))
	s.be.Copy(s.past[c.number].Narrow(1, 0, n), room.Narrow(1, room.Dim(1)-n, n))
	s.held[c.number] = n
}

// swap exchanges the rows at the edges of x (1, T, rows, W, C) with neighbours, whose own it holds there.
func (s *stream) swap(x kernels.Tensor, above, below int) {
	if above+below == 0 || s.err != nil {
		return
	}
	rows := x.Dim(2)
	var send, recv []kernels.Part
	if above > 0 {
		send = append(send, kernels.Part{Peer: s.bands.me() - 1, View: x.Narrow(2, 1, 1)})
		recv = append(recv, kernels.Part{Peer: s.bands.me() - 1, View: x.Narrow(2, 0, 1)})
	}
	if below > 0 {
		send = append(send, kernels.Part{Peer: s.bands.me() + 1, View: x.Narrow(2, rows-2, 1)})
		recv = append(recv, kernels.Part{Peer: s.bands.me() + 1, View: x.Narrow(2, rows-1, 1)})
	}
	s.err = s.bands.group.Exchange("rows", send, recv)
}
