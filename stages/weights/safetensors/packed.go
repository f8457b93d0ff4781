package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// 8-bit weights are stored as fp8 (F8_E4M3, F8_E5M2), whose values are exact in BF16 and F32, or as fp8 or I8 with separate
// scales: value times scale in fp32. A File presents such a tensor with the wider type, widens it when it is read, and hides
// its scales. So a file that `latentbeam convert` has widened has the same tensors and the same digest.

// Packed describes how stored elements become numbers if they are not numbers of a type themselves: 8-bit elements here, blocks
// in other formats (stages/weights/gguf).
type Packed struct {
	DType       string // of the numbers: BF16 or F32
	Note        string // for people, shown after the stored type
	Group, Size int    // elements of a block, and its size in bytes
	// Decode fills dst with the numbers of a tensor's data, starting at element at.
	Decode func(dst []float32, data []byte, at int)
}

// Elements returns the number of elements in data.
func (p *Packed) Elements(data []byte) int { return len(data) / p.Size * p.Group }

// scaled describes how an 8-bit tensor becomes numbers.
type scaled struct {
	values *[256]float32 // number for each byte
	scales []float32     // (rows, columns) of blocks; nil: none
	width  int           // elements in a row of the tensor
	height int           // rows of a block
	block  int           // elements in a row of a block
}

// The fields of fp8: exponent bits, exponent bias, and whether the largest exponent means infinity and NaN.
var (
	e4m3  = float8(3, 7, false)
	e5m2  = float8(2, 15, true)
	int8s = func() *[256]float32 {
		var out [256]float32
		for i := range out {
			out[i] = float32(int8(i))
		}
		return &out
	}()
)

// float8 returns the values of a type with this number of mantissa bits. In a type without infinities only the byte with all
// ones is a NaN.
func float8(mantissa, bias int, infinite bool) *[256]float32 {
	var out [256]float32
	top := 1<<(7-mantissa) - 1 // largest exponent
	for i := range out {
		m, e := i&(1<<mantissa-1), i>>mantissa&top
		v := math.Ldexp(float64(1<<mantissa|m), e-bias-mantissa)
		switch {
		case e == 0:
			v = math.Ldexp(float64(m), 1-bias-mantissa)
		case infinite && e == top && m == 0:
			v = math.Inf(1)
		case e == top && (infinite || m == 1<<mantissa-1):
			v = math.NaN()
		}
		if out[i] = float32(v); i >= 128 {
			out[i] = -out[i]
		}
	}
	return &out
}

// bytesOf8 has the values of the 8-bit types.
var bytesOf8 = map[string]*[256]float32{"F8_E4M3": e4m3, "F8_E5M2": e5m2, "I8": int8s}

// Type returns the type of the tensor's values: DType, or the type that a packed tensor is widened to.
func (t Tensor) Type() string {
	if t.Packed != nil {
		return t.Packed.DType
	}
	return t.DType
}

// Stored describes the tensor's type in the file, for people.
func (t Tensor) Stored() string {
	if t.Packed != nil {
		return t.DType + t.Packed.Note
	}
	return t.DType
}

// packed returns the Packed for the tensor. BF16 holds the numbers of fp8 exactly.
func (p *scaled) packed() *Packed {
	out := &Packed{DType: "BF16", Group: 1, Size: 1, Decode: p.decode}
	if p.scales != nil {
		out.DType, out.Note = "F32", " with scales"
	}
	return out
}

// decode implements Packed.Decode.
func (p *scaled) decode(dst []float32, data []byte, at int) {
	if p.scales == nil {
		for i := range dst {
			dst[i] = p.values[data[at+i]]
		}
		return
	}
	blocks := p.width / p.block // in a row
	for i := 0; i < len(dst); {
		row, column := (at+i)/p.width, (at+i)%p.width
		scale := p.scales[row/p.height*blocks+column/p.block]
		n := min(p.block-column%p.block, len(dst)-i)
		for k := i; k < i+n; k++ {
			dst[k] = float32(p.values[data[at+k]] * scale)
		}
		i += n
	}
}

// widenChunk is the number of elements that are widened at a time.
const widenChunk = 64 << 10

// EachWidened calls use with the data of a packed tensor as its Type, little-endian, piece by piece. A piece is valid during
// the call only.
func (t Tensor) EachWidened(use func(piece []byte) error) error {
	half, n := t.Type() == "BF16", t.Packed.Elements(t.Data)
	room, out := make([]float32, min(widenChunk, n)), make([]byte, 0, 4*min(widenChunk, n))
	for at := 0; at < n; at += len(room) {
		values := room[:min(len(room), n-at)]
		t.Packed.Decode(values, t.Data, at)
		out = out[:0]
		for _, v := range values {
			if bits := math.Float32bits(v); half {
				out = binary.LittleEndian.AppendUint16(out, uint16(bits>>16))
			} else {
				out = binary.LittleEndian.AppendUint32(out, bits)
			}
		}
		if err := use(out); err != nil {
			return err
		}
	}
	return nil
}

// Widened returns a packed tensor as a tensor of its Type with its own data. Other tensors are returned unchanged.
func (t Tensor) Widened() Tensor {
	if t.Packed == nil {
		return t
	}
	out := Tensor{DType: t.Type(), Shape: t.Shape}
	_ = t.EachWidened(func(piece []byte) error { // it cannot fail
		out.Data = append(out.Data, piece...)
		return nil
	})
	return out
}

// NotFinite returns the index of the tensor's first infinity or NaN, -1 if there is none.
func (t Tensor) NotFinite() int {
	if t.Packed == nil {
		return NotFinite(t.Data, t.DType)
	}
	found, at := -1, 0
	_ = t.EachWidened(func(piece []byte) error { // it cannot fail
		if i := NotFinite(piece, t.Type()); i >= 0 && found < 0 {
			found = at + i
		}
		at += len(piece) / int(dtypeSizes[t.Type()])
		return nil
	})
	return found
}

// scaleNames are the names that programs use for the scale of X.weight. Values are multiplied by the scale.
var scaleNames = []string{".scale_weight", ".weight_scale", ".weight_scale_inv"}

// besideNames are other tensors that programs store for an 8-bit module: the scale of its inputs and how it was made. Its
// numbers do not depend on them. marker is a tensor that says that the whole file has scales.
var (
	besideNames = []string{".scale_input", ".input_scale", ".comfy_quant"}
	marker      = "scaled_fp8"
)

// pack finds the 8-bit tensors of all shards, and hides the tensors that belong to them.
func (f *File) pack() error {
	hidden := map[string]bool{}
	for i := range f.entries {
		e := &f.entries[i]
		values := bytesOf8[e.dtype]
		if values == nil || e.name == marker || strings.HasSuffix(e.name, "."+marker) {
			continue
		}
		p := &scaled{values: values}
		module := strings.TrimSuffix(e.name, ".weight")
		found, err := f.scale(p, e, module)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", shorten(e.name), err)
		}
		if found == "" && e.dtype == "I8" {
			continue // integers
		}
		if e.packed, f.packed = p.packed(), true; found != "" {
			hidden[found] = true
		}
		for _, name := range besideNames {
			hidden[module+name] = true
		}
	}
	if !f.packed {
		return nil
	}
	f.entries = slices.DeleteFunc(f.entries, func(e entry) bool {
		return hidden[e.name] || e.packed == nil && (e.name == marker || strings.HasSuffix(e.name, "."+marker))
	})
	return nil
}

// scale reads the scale of a module's tensor, if it has one, and returns the scale's name.
func (f *File) scale(p *scaled, e *entry, module string) (name string, err error) {
	var t Tensor
	for _, suffix := range scaleNames {
		other, ok := f.Tensor(module + suffix)
		switch {
		case !ok:
		case name != "":
			return "", fmt.Errorf("it has two scales, %q and %q", shorten(name), shorten(module+suffix))
		default:
			name, t = module+suffix, other
		}
	}
	if name == "" {
		return "", nil
	}
	if p.scales, err = t.scales(); err != nil {
		return "", fmt.Errorf("its scale %q %w", shorten(name), err)
	}
	rows, columns := 1, 1 // of blocks
	switch n := len(p.scales); {
	case len(t.Shape) > 1:
		rows, columns = t.Shape[0], n/max(1, t.Shape[0])
	default:
		rows = n
	}
	height, width := 1, 1
	if len(e.shape) > 0 {
		height = e.shape[0]
	}
	for _, d := range e.shape[min(1, len(e.shape)):] {
		width *= d
	}
	if rows < 1 || columns < 1 || height%rows != 0 || width%columns != 0 || height == 0 || width == 0 {
		return "", fmt.Errorf("its scale %q has shape %v: give one number, one for each row of %v, or blocks of equal size", shorten(name),
			t.Shape, e.shape)
	}
	p.width, p.height, p.block = width, height/rows, width/columns
	return name, nil
}

// scales returns the numbers of a scale.
func (t Tensor) scales() ([]float32, error) {
	size := int(dtypeSizes[t.DType])
	out := make([]float32, 0, len(t.Data)/size)
	for at := 0; at < len(t.Data); at += size {
		var v float32
		switch t.DType {
		case "F32":
			v = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:]))
		case "BF16":
			v = math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[at:])) << 16)
		case "F64":
			v = float32(math.Float64frombits(binary.LittleEndian.Uint64(t.Data[at:])))
		default:
			return nil, fmt.Errorf("is %s: give F32, BF16 or F64", t.DType)
		}
		if v-v != 0 {
			return nil, fmt.Errorf("holds %g: the file is damaged", v)
		}
		out = append(out, v)
	}
	return out, nil
}
