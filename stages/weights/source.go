package weights

import (
	"runtime"
	"sync"

	"latentbeam/internal/system"
	"latentbeam/kernels"
	"latentbeam/stages/weights/lora"
	"latentbeam/stages/weights/safetensors"
)

// source describes where the data of a weight comes from: pieces of a tensor in its file, at equal distances, and the type to
// which they are rounded.
type source struct {
	file     []byte              // little-endian data of the tensor
	mapped   bool                // file is mapped memory
	packed   *safetensors.Packed // widens the file's data to from; nil: the data has that type
	from, to kernels.DType

	first, length int // start of the first piece, and length of each, in elements
	count, every  int // number of pieces, and distance of their starts in elements

	added   lora.Delta // what adapters add; nil: nothing
	columns int        // length of a row of the tensor: all axes but the first
}

// source returns the source for part s of a tensor t with values of type dt.
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

// fileBytes returns the file's bytes of some elements. Of packed tensors it returns whole blocks.
func (s source) fileBytes(first, length int) []byte {
	group, size := 1, s.from.Size()
	if s.packed != nil {
		group, size = s.packed.Group, s.packed.Size
	}
	from, to := first/group*size, (first+length+group-1)/group*size
	return s.file[from:to:to]
}

// inPlace reports whether the weight can be used directly from the file.
func (s source) inPlace() bool {
	return s.from == s.to && s.count == 1 && s.added == nil && s.packed == nil
}

// size returns the size of the weight in bytes.
func (s source) size() int { return s.count * s.length * s.to.Size() }

// bytes returns the weight, little-endian, in place or as a copy.
func (s source) bytes() []byte {
	if s.inPlace() {
		return s.fileBytes(s.first, s.length)
	}
	out := make([]byte, s.size())
	s.read(out)
	return out
}

// readBlock is the number of elements that one goroutine reads at a time.
const readBlock = 1 << 20

// read writes the weight to dst. The tensors of a model have gigabytes, so blocks are read concurrently.
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

// readSome writes the elements in the range from, to.
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
		convert(dst[i*narrow:][:n*narrow], s.fileBytes(at, n), s.from, s.to)
		i += n
	}
}

// readChunk is the number of elements that are converted through fp32 at a time.
const readChunk = 1024

// readWide writes elements of one row of the tensor, widened and with the adapters added. It starts at element at and writes at
// most len(room) elements; it returns how many it wrote. The sum is rounded once.
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

// convert converts little-endian src of type from to dst of type to.
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

// discard releases the pages of the part of a mapped file that was read.
func (s source) discard() {
	if s.mapped {
		system.ForgetPages(s.fileBytes(s.first, (s.count-1)*s.every+s.length))
	}
}

// prefetch asks the system to read the part of a mapped file.
func (s source) prefetch() {
	if s.mapped {
		system.ReadAhead(s.fileBytes(s.first, (s.count-1)*s.every+s.length))
	}
}
