// Package gguftest writes GGUF files for tests. It shares no code with the reader.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"latentbeam/kernels"
)

// Tensor is a tensor of a file.
type Tensor struct {
	Name, Type string
	Shape      []int // slowest axis first
	Data       []byte
}

// layout describes how a type is stored: its number, the values and the size of a block, the position of the binary16 scale in
// it, and the largest integer.
type layout struct {
	number      uint32
	group, size int
	scales      []int
	most        float64
}

var layouts = map[string]layout{
	"F32": {0, 1, 4, nil, 0}, "F16": {1, 1, 2, nil, 0}, "BF16": {30, 1, 2, nil, 0},
	"Q4_0": {2, 32, 18, []int{0}, 8}, "Q4_1": {3, 32, 20, []int{0, 2}, 16}, "Q5_0": {6, 32, 22, []int{0}, 16},
	"Q5_1": {7, 32, 24, []int{0, 2}, 32}, "Q8_0": {8, 32, 34, []int{0}, 128},
	"Q4_K": {12, 256, 144, []int{0, 2}, 16 * 64}, "Q5_K": {13, 256, 176, []int{0, 2}, 32 * 64}, "Q6_K": {14, 256, 210, []int{208}, 32 * 128},
}

// Types returns the types that Random supports.
func Types() []string { return slices.Sorted(maps.Keys(layouts)) }

// Random returns a tensor of a type. Its values depend on its name and are at most about scale. Vectors, and tensors whose rows
// are not whole blocks, are F32, as in published files.
func Random(name, of string, scale float64, shape ...int) Tensor {
	if l := layouts[of]; len(shape) < 2 || shape[len(shape)-1]%l.group != 0 {
		of = "F32"
	}
	l, sum := layouts[of], fnv.New64a()
	sum.Write([]byte(name))
	random := rand.New(rand.NewPCG(sum.Sum64(), 1))
	t := Tensor{Name: name, Type: of, Shape: shape}
	for range kernels.Elements(shape) / l.group {
		block := make([]byte, l.size)
		for i := range block {
			block[i] = byte(random.Uint32())
		}
		v := scale * (2*random.Float64() - 1)
		switch of {
		case "F32":
			binary.LittleEndian.PutUint32(block, math.Float32bits(float32(v)))
		case "F16":
			binary.LittleEndian.PutUint16(block, kernels.ToF16(float32(v)))
		case "BF16":
			binary.LittleEndian.PutUint16(block, kernels.ToBF16(float32(v)))
		}
		for _, at := range l.scales {
			binary.LittleEndian.PutUint16(block[at:], kernels.ToF16(float32(v/l.most)))
		}
		t.Data = append(t.Data, block...)
	}
	return t
}

// Write returns a file with values and tensors, aligned to 32 bytes. A value is a string, a uint32, a bool, or a list of
// strings, float32, int32 or bytes.
func Write(values map[string]any, tensors []Tensor) []byte {
	var out bytes.Buffer
	u32 := func(n uint32) { out.Write(binary.LittleEndian.AppendUint32(nil, n)) }
	u64 := func(n int) { out.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	text := func(s string) { u64(len(s)); out.WriteString(s) }
	out.WriteString("GGUF")
	u32(3)
	u64(len(tensors))
	u64(len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text(key)
		list := func(of uint32, n int, data any) {
			u32(9)
			u32(of)
			u64(n)
			if data != nil {
				_ = binary.Write(&out, binary.LittleEndian, data) // a buffer never fails
			}
		}
		switch v := values[key].(type) {
		case string:
			u32(8)
			text(v)
		case uint32:
			u32(4)
			u32(v)
		case bool:
			u32(7)
			out.WriteByte(map[bool]byte{true: 1}[v])
		case []string:
			list(8, len(v), nil)
			for _, s := range v {
				text(s)
			}
		case []float32:
			list(6, len(v), v)
		case []int32:
			list(5, len(v), v)
		case []byte:
			list(0, len(v), v)
		default:
			panic(fmt.Sprintf("gguftest: a value of type %T", v))
		}
	}
	at := 0
	for _, t := range tensors {
		text(t.Name)
		u32(uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			u64(d)
		}
		u32(layouts[t.Type].number)
		u64(at)
		at += (len(t.Data) + 31) / 32 * 32
	}
	pad := func() { out.Write(make([]byte, (32-out.Len()%32)%32)) }
	pad()
	for _, t := range tensors {
		out.Write(t.Data)
		pad()
	}
	return out.Bytes()
}
