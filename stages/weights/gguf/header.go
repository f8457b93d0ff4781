package gguf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"latentbeam/stages/weights/safetensors"
)

const (
	// magic is the start of every file.
	magic = "GGUF"
	// maxAxes limits the rank of a tensor. ggml has 4; ComfyUI-GGUF writes the convolutions of videos with 5.
	maxAxes = 8
	// maxKeys limits the key-value pairs before the tensors; real files have about thirty.
	maxKeys = 1 << 16
	// minTensor is the length of a tensor's shortest entry: an empty name, no axes, type and offset.
	minTensor = 8 + 4 + 4 + 8
	// usualAlignment is the alignment of the tensors if the file does not name one.
	usualAlignment = 32
)

// kind is the type of a value.
type kind uint32

// The types of values, with their numbers in the file.
const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

// kindSizes has the sizes of the types with fixed length.
var kindSizes = map[kind]uint64{kindU8: 1, kindI8: 1, kindU16: 2, kindI16: 2, kindU32: 4, kindI32: 4, kindF32: 4, kindBool: 1,
	kindU64: 8, kindI64: 8, kindF64: 8}

// value is a value of the header. Its data is decoded on demand.
type value struct {
	kind  kind // of an array: kind of its elements
	array bool
	n     uint64 // number of elements
	data  []byte // of the elements
}

// header is everything before the tensors' data.
type header struct {
	values  map[string]value
	tensors []safetensors.Place
}

// cursor reads a header.
type cursor struct {
	in []byte
	at uint64
}

// errShort says that the file ends inside the header.
var errShort = errors.New("the file is cut short")

// next returns the next n bytes.
func (c *cursor) next(n uint64) ([]byte, error) {
	if n > uint64(len(c.in))-c.at {
		return nil, errShort
	}
	out := c.in[c.at:][:n:n]
	c.at += n
	return out, nil
}

func (c *cursor) u32() (uint32, error) {
	b, err := c.next(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64() (uint64, error) {
	b, err := c.next(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// text reads a string: its length and its bytes.
func (c *cursor) text() (string, error) {
	n, err := c.u64()
	if err != nil {
		return "", err
	}
	b, err := c.next(n)
	return string(b), err
}

// Is reports whether content is a GGUF file.
func Is(content []byte) bool {
	return strings.HasPrefix(string(content[:min(len(content), len(magic))]), magic)
}

// parse reads a header and checks it.
func parse(content []byte) (*header, error) {
	c := &cursor{in: content}
	if !Is(content) {
		return nil, errors.New("this is not a GGUF file: it does not begin with GGUF")
	}
	c.at = uint64(len(magic))
	version, err := c.u32()
	switch {
	case err != nil:
		return nil, err
	case version&0xffff == 0:
		return nil, errors.New("its numbers are big-endian, which is not supported")
	case version != 2 && version != 3:
		return nil, fmt.Errorf("it has version %d of the format: versions 2 and 3 are supported", version)
	}
	tensors, err := c.u64()
	if err != nil {
		return nil, err
	}
	keys, err := c.u64()
	if err != nil {
		return nil, err
	}
	if left := uint64(len(content)) - c.at; tensors > left/minTensor || keys > maxKeys {
		return nil, fmt.Errorf("it says that it has %d tensors and %d values: more than a file of %d bytes can hold", tensors, keys, len(content))
	}
	h := &header{values: map[string]value{}}
	for i := range keys {
		if err := h.addValue(c); err != nil {
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
	}
	for i := range tensors {
		if err := h.addTensor(c); err != nil {
			return nil, fmt.Errorf("tensor %d: %w", i, err)
		}
	}
	return h, h.place(c)
}

func (h *header) addValue(c *cursor) error {
	key, err := c.text()
	if err != nil {
		return err
	}
	if _, twice := h.values[key]; twice {
		return fmt.Errorf("%q appears twice", shorten(key))
	}
	of, err := c.u32()
	if err != nil {
		return err
	}
	v := value{kind: kind(of), n: 1}
	if v.kind == kindArray {
		v.array = true
		if of, err = c.u32(); err != nil {
			return err
		}
		v.kind = kind(of)
		if v.n, err = c.u64(); err != nil {
			return err
		}
	}
	from := c.at
	if size, fixed := kindSizes[v.kind]; fixed {
		hi, n := bits.Mul64(size, v.n)
		if hi != 0 {
			return errShort
		}
		v.data, err = c.next(n)
	} else if v.kind == kindString {
		for range v.n { // each takes at least 8 bytes, so the loop ends with the file
			if _, err = c.skipText(); err != nil {
				break
			}
		}
		v.data = c.in[from:c.at:c.at]
	} else {
		return fmt.Errorf("%q is of type %d, which the format does not have", shorten(key), of)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", shorten(key), err)
	}
	h.values[key] = v
	return nil
}

// skipText skips a string.
func (c *cursor) skipText() ([]byte, error) {
	n, err := c.u64()
	if err != nil {
		return nil, err
	}
	return c.next(n)
}

func (h *header) addTensor(c *cursor) error {
	name, err := c.text()
	if err != nil {
		return err
	}
	if !utf8.ValidString(name) || name == "" {
		return fmt.Errorf("its name %q is empty or no UTF-8", shorten(name))
	}
	axes, err := c.u32()
	if err != nil {
		return err
	}
	if axes > maxAxes {
		return fmt.Errorf("%q has %d axes: at most %d are read", shorten(name), axes, maxAxes)
	}
	shape := make([]int, axes)
	for i := range shape { // the file has the fastest axis first
		d, err := c.u64()
		if err != nil {
			return err
		}
		if d > math.MaxInt64 {
			return fmt.Errorf("%q has an axis of %d", shorten(name), d)
		}
		shape[int(axes)-1-i] = int(d)
	}
	number, err := c.u32()
	if err != nil {
		return err
	}
	offset, err := c.u64()
	if err != nil {
		return err
	}
	t, size, err := h.tensor(name, shape, number)
	if err != nil {
		return fmt.Errorf("%q: %w", shorten(name), err)
	}
	t.Begin, t.End = offset, offset+size
	if t.End < t.Begin {
		return fmt.Errorf("%q begins at byte %d: %w", shorten(name), offset, errShort)
	}
	h.tensors = append(h.tensors, t)
	return nil
}

// tensor describes a tensor with this type number, and returns its size in bytes.
func (h *header) tensor(name string, shape []int, number uint32) (t safetensors.Place, size uint64, err error) {
	of, known := types[number]
	if !known {
		return t, 0, fmt.Errorf("it is of type %s, which is not supported: take the model in one of %s", typeName(number), readable())
	}
	row := 1
	if len(shape) > 0 {
		row = shape[len(shape)-1]
	}
	if row%of.group != 0 {
		return t, 0, fmt.Errorf("%s has blocks of %d numbers, but its rows have %d", of.name, of.group, row)
	}
	n := uint64(1)
	for _, d := range shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return t, 0, fmt.Errorf("shape %v overflows", shape)
		}
		n = lo
	}
	hi, size := bits.Mul64(n/uint64(of.group), uint64(of.size))
	if hi != 0 || n > math.MaxInt64/8 {
		return t, 0, fmt.Errorf("shape %v overflows", shape)
	}
	if shape, err = h.shape(name, shape, n); err != nil {
		return t, 0, err
	}
	t = safetensors.Place{TensorInfo: safetensors.TensorInfo{Name: name, DType: of.name, Shape: shape}}
	if of.decode != nil {
		t.Packed = &safetensors.Packed{DType: "F32", Group: of.group, Size: of.size, Decode: of.decodeFrom}
	}
	return t, size, nil
}

// shape returns the original shape of a tensor with n elements, which ComfyUI-GGUF may have reshaped to rows of 256. Most
// tensors were not reshaped.
func (h *header) shape(name string, shape []int, n uint64) ([]int, error) {
	v, ok := h.values["comfy.gguf.orig_shape."+name]
	if !ok {
		return shape, nil
	}
	if !v.array || v.kind != kindI32 || v.n > maxAxes {
		return nil, errors.New("its comfy.gguf.orig_shape is not a short list of integers")
	}
	was, all := make([]int, v.n), uint64(1)
	for i := range was {
		d := int32(binary.LittleEndian.Uint32(v.data[4*i:]))
		if d < 0 {
			return nil, fmt.Errorf("its comfy.gguf.orig_shape has an axis of %d", d)
		}
		was[i] = int(d)
		hi, lo := bits.Mul64(all, uint64(d))
		if hi != 0 {
			return nil, errors.New("its comfy.gguf.orig_shape overflows")
		}
		all = lo
	}
	if all != n {
		return nil, fmt.Errorf("its comfy.gguf.orig_shape %v does not have %d numbers", was, n)
	}
	return was, nil
}

// place checks that the tensors are inside the file, aligned and without overlaps, and makes their offsets relative to the
// file.
func (h *header) place(c *cursor) error {
	alignment := uint64(usualAlignment)
	if v, ok := h.values["general.alignment"]; ok {
		n, isNumber := v.number()
		if !isNumber || n == 0 || n&(n-1) != 0 || n > 1<<20 {
			return errors.New("general.alignment is no power of two up to 1048576")
		}
		alignment = n
	}
	from := c.at + (alignment-c.at%alignment)%alignment
	slices.SortFunc(h.tensors, func(a, b safetensors.Place) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End))
	})
	at, size := uint64(0), uint64(len(c.in))
	for i := range h.tensors {
		t := &h.tensors[i]
		switch {
		case from > size || t.End > size-from:
			return fmt.Errorf("tensor %q ends at byte %d of %d: %w", shorten(t.Name), t.End, size-min(from, size), errShort)
		case t.Begin%alignment != 0:
			return fmt.Errorf("tensor %q begins at byte %d, no multiple of %d", shorten(t.Name), t.Begin, alignment)
		case t.Begin < at:
			return fmt.Errorf("tensor %q begins at byte %d, inside the tensor that ends at %d", shorten(t.Name), t.Begin, at)
		}
		at = t.End
		t.Begin, t.End = t.Begin+from, t.End+from
	}
	return nil
}

// number returns a non-negative integer value.
func (v value) number() (n uint64, ok bool) {
	if v.array || len(v.data) == 0 || v.kind == kindF32 || v.kind == kindF64 || v.kind == kindString || v.kind == kindBool {
		return 0, false
	}
	for i := len(v.data) - 1; i >= 0; i-- {
		n = n<<8 | uint64(v.data[i])
	}
	signed := v.kind == kindI8 || v.kind == kindI16 || v.kind == kindI32 || v.kind == kindI64
	return n, !signed || v.data[len(v.data)-1] < 128
}

// text returns a string value.
func (v value) text() string {
	if v.array || v.kind != kindString {
		return ""
	}
	b, _ := (&cursor{in: v.data}).skipText() // parsed once before
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// shorten keeps messages readable, whatever a file uses as a name.
func shorten(name string) string {
	const most = 120
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}
