package safetensors

import (
	"encoding/binary"
	"math"
)

// exponents masks the exponent bits of two or four adjacent values. An infinity or a NaN has all of them set.
var exponents = map[string]uint64{
	"F32":  0x7f800000_7f800000,
	"BF16": 0x7f80_7f80_7f80_7f80,
	"F16":  0x7c00_7c00_7c00_7c00,
}

// NotFinite returns the index of the first infinity or NaN in a tensor's data, -1 if there is none or the type has none. Such a
// weight would turn all results into NaNs, after hours of work. It checks 32 bytes at a time: in ^x & exponents, a value
// without any bit set is an infinity or a NaN.
func NotFinite(data []byte, dtype string) int {
	mask, known := exponents[dtype]
	if !known {
		return -1
	}
	size := dtypeSizes[dtype]
	lane := uint(8 * size)
	ones := math.MaxUint64 / (uint64(1)<<lane - 1) // lowest bit of each value
	high := ones << (lane - 1)
	empty := func(x uint64) uint64 { // has a bit set if a value of x & mask has all bits of the mask
		missing := ^x & mask
		return (missing - ones) &^ missing & high
	}
	at := 0
	for ; at+32 <= len(data); at += 32 {
		x := (*[32]byte)(data[at:])
		some := empty(binary.LittleEndian.Uint64(x[0:])) | empty(binary.LittleEndian.Uint64(x[8:])) |
			empty(binary.LittleEndian.Uint64(x[16:])) | empty(binary.LittleEndian.Uint64(x[24:]))
		if some != 0 {
			break
		}
	}
	for ; at+int(size) <= len(data); at += int(size) {
		var one [8]byte
		copy(one[:], data[at:at+int(size)])
		if empty(binary.LittleEndian.Uint64(one[:]))&(1<<(lane-1)) != 0 {
			return at / int(size)
		}
	}
	return -1
}
