package weight

import (
	"encoding/binary"
	"math"

	"latentbeam/kernels"
)

// exponents are the bits of two or four neighbouring values that are all set in infinities and NaNs.
var exponents = map[kernels.DType]uint64{
	kernels.F32:  0x7f800000_7f800000,
	kernels.BF16: 0x7f80_7f80_7f80_7f80,
	kernels.F16:  0x7c00_7c00_7c00_7c00,
}

// notFinite returns the index of the first infinity or NaN in little-endian data, -1 where there is none.
// Such a weight would make NaNs of everything, after hours. It looks at 8 bytes at a time: in the lanes of
// ^x & exponents, a lane without any bit is one that has all of them.
func notFinite(data []byte, dt kernels.DType) int {
	mask, lane := exponents[dt], uint(8*dt.Size())
	ones := math.MaxUint64 / (uint64(1)<<lane - 1) // the lowest bit of each lane
	high := ones << (lane - 1)
	for at := 0; at+8 <= len(data); at += 8 {
		missing := ^binary.LittleEndian.Uint64(data[at:]) & mask
		if (missing-ones)&^missing&high == 0 { // no lane is 0
			continue
		}
		for i := at / dt.Size(); i < (at+8)/dt.Size(); i++ {
			if !finite(dt.At(data, i)) {
				return i
			}
		}
	}
	for i := len(data) / 8 * 8 / dt.Size(); i < len(data)/dt.Size(); i++ {
		if !finite(dt.At(data, i)) {
			return i
		}
	}
	return -1
}

func finite(x float32) bool { return x-x == 0 }
