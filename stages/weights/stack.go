package weights

import (
	"encoding/binary"
	"math"
	"slices"

	"latentbeam/kernels"
)

// Stack returns the named vectors of n numbers as one tensor (len(names), n), so that one call can use all of them. The tensor
// is a copy, because the vectors are small. If their types differ it is F32.
func (w *Weights) Stack(n int, names ...string) kernels.Tensor {
	shape := []int{len(names), n}
	var types []kernels.DType
	var rows [][]byte
	for _, name := range names {
		t, dt, ok := w.find(w.prefix+name, shape[1:], func(have []int) bool { return slices.Equal(have, shape[1:]) })
		if ok {
			types, rows = append(types, dt), append(rows, t.Widened().Data)
			w.sizes[w.prefix+name] = n
		}
	}
	switch {
	case w.found == nil: // ShapesOnly
		return kernels.NewTensor(kernels.F32, w.account, shape...)
	case len(rows) < len(names):
		return kernels.Tensor{}
	}
	dt := types[0]
	if slices.ContainsFunc(types, func(other kernels.DType) bool { return other != dt }) {
		dt = kernels.F32
	}
	if w.be == nil { // Outline
		return kernels.NewTensor(dt, w.account, shape...)
	}
	var data []byte
	for i, row := range rows {
		if types[i] != dt {
			row = widened(row, types[i])
		}
		data = append(data, row...)
	}
	return w.make(w.prefix+names[0], shape, source{file: data, from: dt, to: dt, length: len(data) / dt.Size(), count: 1})
}

// widened converts little-endian data to fp32.
func widened(data []byte, dt kernels.DType) []byte {
	out := make([]byte, 0, len(data)/dt.Size()*4)
	for _, v := range dt.Values(data) {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}
