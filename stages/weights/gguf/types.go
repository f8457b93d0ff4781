package gguf

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"latentbeam/kernels"
)

// elementType describes how a tensor's numbers are stored in the file.
type elementType struct {
	name        string
	group, size int                               // numbers in a block, and its size in bytes
	decode      func(dst []float32, block []byte) // nil: a type of safetensors
}

// types are the supported types by their numbers in the file (ggml_type).
var types = map[uint32]elementType{
	0: {"F32", 1, 4, nil}, 1: {"F16", 1, 2, nil}, 30: {"BF16", 1, 2, nil}, 28: {"F64", 1, 8, nil},
	24: {"I8", 1, 1, nil}, 25: {"I16", 1, 2, nil}, 26: {"I32", 1, 4, nil}, 27: {"I64", 1, 8, nil},
	2: {"Q4_0", 32, 18, q40}, 3: {"Q4_1", 32, 20, q41}, 6: {"Q5_0", 32, 22, q50}, 7: {"Q5_1", 32, 24, q51}, 8: {"Q8_0", 32, 34, q80},
	12: {"Q4_K", superBlock, 144, q4k}, 13: {"Q5_K", superBlock, 176, q5k}, 14: {"Q6_K", superBlock, 210, q6k},
}

// superBlock is the number of values in a block of the types that end with K.
const superBlock = 256

// unsupported has the names of unsupported types.
var unsupported = map[uint32]string{9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
	20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4"}

func typeName(number uint32) string {
	if name := unsupported[number]; name != "" {
		return name
	}
	return fmt.Sprintf("number %d", number)
}

// readable lists the supported types of weights.
func readable() string {
	var names []string
	for _, t := range types {
		if !strings.HasPrefix(t.name, "I") {
			names = append(names, t.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// decodeFrom implements safetensors.Packed.Decode.
func (t elementType) decodeFrom(dst []float32, data []byte, at int) {
	var room [superBlock]float32
	for len(dst) > 0 {
		block, within := data[at/t.group*t.size:][:t.size], at%t.group
		if within == 0 && len(dst) >= t.group {
			t.decode(dst[:t.group], block)
			dst, at = dst[t.group:], at+t.group
			continue
		}
		t.decode(room[:t.group], block)
		n := copy(dst, room[within:t.group])
		dst, at = dst[n:], at+n
	}
}

// half returns the binary16 at the start of b.
func half(b []byte) float32 { return kernels.FromF16(binary.LittleEndian.Uint16(b)) }

// Products are rounded to fp32 before they are added, on every processor: the conversion float32() forbids fused operations.

// q40 is a scale and 32 numbers of 4 bits, from -8 on. The lower halves of the bytes come first.
func q40(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:18] {
		dst[i], dst[i+16] = d*float32(int8(q&15)-8), d*float32(int8(q>>4)-8)
	}
}

// q41 has a minimum instead of the offset.
func q41(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:20] {
		dst[i], dst[i+16] = float32(d*float32(q&15))+m, float32(d*float32(q>>4))+m
	}
}

// q50 is q40 with a fifth, highest bit for each number.
func q50(dst []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:22] {
		low, up := q&15|byte(high>>i&1)<<4, q>>4|byte(high>>(i+16)&1)<<4
		dst[i], dst[i+16] = d*float32(int8(low)-16), d*float32(int8(up)-16)
	}
}

// q51 is q41 with a fifth, highest bit for each number.
func q51(dst []float32, b []byte) {
	d, m, high := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for i, q := range b[8:24] {
		low, up := q&15|byte(high>>i&1)<<4, q>>4|byte(high>>(i+16)&1)<<4
		dst[i], dst[i+16] = float32(d*float32(low))+m, float32(d*float32(up))+m
	}
}

// q80 is a scale and 32 integers of 8 bits.
func q80(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:34] {
		dst[i] = float32(int8(q)) * d
	}
}

// scales decodes the eight 6-bit scales and minimums in the 12 bytes of a Q4_K or Q5_K block, multiplied by the block's own
// scales.
func scales(b []byte) (d, m [8]float32) {
	all, least, packed := half(b), half(b[2:]), b[4:16]
	for i := range 4 {
		d[i], m[i] = all*float32(packed[i]&63), least*float32(packed[4+i]&63)
		d[4+i] = all * float32(packed[8+i]&15|packed[i]>>2&48)
		m[4+i] = least * float32(packed[8+i]>>4|packed[4+i]>>2&48)
	}
	return d, m
}

// q4k is 8 groups of 32 numbers of 4 bits, each with a scale and a minimum. Two groups share 32 bytes.
func q4k(dst []float32, b []byte) {
	d, m := scales(b)
	for pair := range 4 {
		low, up := dst[64*pair:][:32], dst[64*pair+32:][:32]
		for i, q := range b[16+32*pair:][:32] {
			low[i] = float32(d[2*pair]*float32(q&15)) - m[2*pair]
			up[i] = float32(d[2*pair+1]*float32(q>>4)) - m[2*pair+1]
		}
	}
}

// q5k is q4k with a fifth bit for each number: byte i of these bits has the bits of number i in all groups.
func q5k(dst []float32, b []byte) {
	d, m := scales(b)
	high := b[16:48]
	for pair := range 4 {
		low, up := dst[64*pair:][:32], dst[64*pair+32:][:32]
		for i, q := range b[48+32*pair:][:32] {
			h := high[i] >> (2 * pair)
			low[i] = float32(d[2*pair]*float32(q&15|h&1<<4)) - m[2*pair]
			up[i] = float32(d[2*pair+1]*float32(q>>4|h>>1&1<<4)) - m[2*pair+1]
		}
	}
}

// q6k is 16 groups of 16 numbers of 6 bits, from -32 on, each with an 8-bit scale. 128 numbers share 64 bytes of lower bits and
// 32 bytes of upper bits.
func q6k(dst []float32, b []byte) {
	all := half(b[208:])
	var d [16]float32
	for i := range d {
		d[i] = all * float32(int8(b[192+i]))
	}
	for part := range 2 {
		low, high, out := b[64*part:][:64], b[128+32*part:][:32], dst[128*part:][:128]
		for i := range 32 {
			h := high[i]
			for k, q := range [4]byte{low[i]&15 | h&3<<4, low[32+i]&15 | h>>2&3<<4, low[i]>>4 | h>>4&3<<4, low[32+i]>>4 | h>>6<<4} {
				out[32*k+i] = d[8*part+2*k+i/16] * float32(int8(q)-32)
			}
		}
	}
}
