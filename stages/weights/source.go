package weights

import (
	"runtime"
	"sync"

	"latentbeam/internal/system"
	"latentbeam/kernels"
	"latentbeam/stages/weights/lora"
	"latentbeam/stages/weights/safetensors"
)

// source says where the bytes of a weight come from: pieces of a tensor in its file, at equal distances, and the type to
// which they are rounded.
type source struct {
	file     []byte              // little-endian
	mapped   bool                // file is mapped memory
	packed   *safetensors.Packed // widens the file's bytes to from; nil: they are of from
	from, to kernels.DType

	first, length int // where the first stretch begins, and how long each is, in elements
	count, every  int // how many stretches there are, and the elements from one's begin to the next's

	added   lora.Delta // what adapters add; nil: nothing
	columns int        // of a row of the tensor, all axes but the first together
}

// source is the part s of a tensor t whose values are of type dt.
func (s Subset) source(t safetensors.Tensor, dt kernels.DType) source {
	out := source{file: t.Data, packed: t.Packed, from: dt, to: dt, length: kernels.Elements(t.Shape), count: 1, columns: 1}
	shape := t.Shape
	for _, d := range shape[min(1, len(shape)):] {
		out.columns *= d
	}
	switch {
	case s.Rows.Len() > 0 && s.Rows.Len()*s.Groups < shape[0]:
		out.first, out.length = s.Rows.Lo*out.columns, s.Rows.Len()*out.columns
		out.count, out.every = s.Groups, shape[0]/s.Groups*out.columns
	case s.Columns.Len() > 0 && s.Columns.Len() < shape[1]:
		out.first, out.length = s.Columns.Lo, s.Columns.Len()
		out.count, out.every = shape[0], out.columns
	}
	return out
}

// in returns the bytes of the file that hold elements: with packed tensors whole blocks.
func (s source) in(first, length int) []byte {
	group, size := 1, s.from.Size()
	if s.packed != nil {
		group, size = s.packed.Group, s.packed.Size
	}
	from, to := first/group*size, (first+length+group-1)/group*size
	return s.file[from:to:to]
}

// inPlace reports whether the weight can be used as it lies in the file.
func (s source) inPlace() bool {
	return s.from == s.to && s.count == 1 && s.added == nil && s.packed == nil
}

// size is the bytes of the weight.
func (s source) size() int { return s.count * s.length * s.to.Size() }

// bytes returns the weight, little-endian: in place or as a copy.
func (s source) bytes() []byte {
	if s.inPlace() {
		return s.in(s.first, s.length)
	}
	out := make([]byte, s.size())
	s.read(out)
	return out
}

// readBlock is how many elements one goroutine reads at a time.
const readBlock = 1 << 20

// read writes the weight to dst. The tensors of a model are gigabytes, so blocks are read side by side.
func (s source) read(dst []byte) {
	n := len(dst) / s.to.Size()
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for from := 0; from < n; from += readBlock {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			s.readSome(dst, from, min(from+readBlock, n))
		})
	}
	wg.Wait()
}

// readSome writes the elements from one to another.
func (s source) readSome(dst []byte, from, to int) {
	narrow := s.to.Size()
	var room []float32
	if s.added != nil || s.packed != nil {
		room = make([]float32, readChunk)
	}
	for i := from; i < to; {
		stretch, within := i/s.length, i%s.length
		n, at := min(s.length-within, to-i), s.first+stretch*s.every+within
		if room != nil {
			i += s.readWide(dst[i*narrow:], at, room[:min(n, readChunk)])
			continue
		}
		convert(dst[i*narrow:][:n*narrow], s.in(at, n), s.from, s.to)
		i += n
	}
}

// readChunk is how many elements pass through fp32 at a time.
const readChunk = 1024

// readWide writes elements of one row of the tensor, widened and with what adapters add: as many as there is room for at most, the
// first is number at. It returns how many it wrote. The sum is rounded once.
func (s source) readWide(dst []byte, at int, room []float32) int {
	row, column := at/s.columns, at%s.columns
	n := min(len(room), s.columns-column)
	sums := room[:n]
	if s.packed != nil {
		s.packed.Decode(sums, s.file, at)
	} else {
		s.from.Decode(sums, s.file[at*s.from.Size():])
	}
	s.added.Add(sums, row, column)
	s.to.Encode(dst, sums)
	return n
}

// convert writes little-endian src of one type to dst of another.
func convert(dst, src []byte, from, to kernels.DType) {
	if from == to {
		copy(dst, src)
		return
	}
	var room [readChunk]float32
	wide, narrow := from.Size(), to.Size()
	for len(src) > 0 {
		values := room[:min(len(src)/wide, len(room))]
		from.Decode(values, src)
		to.Encode(dst, values)
		src, dst = src[len(values)*wide:], dst[len(values)*narrow:]
	}
}

// discard gives memory back to the system: that of the part of a mapped file which was read.
func (s source) discard() {
	if s.mapped {
		system.ForgetPages(s.in(s.first, (s.count-1)*s.every+s.length))
	}
}

// ahead asks the system to read the part of a mapped file.
func (s source) ahead() {
	if s.mapped {
		system.ReadAhead(s.in(s.first, (s.count-1)*s.every+s.length))
	}
}
