package safetensors

import (
	"encoding/binary"
	"testing"
)

// TestNotFinite: an infinity or a NaN is found at every position, and no other value is mistaken for one.
func TestNotFinite(t *testing.T) {
	for dt, bad := range map[string][]uint32{
		"F32":  {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff},
		"BF16": {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff},
		"F16":  {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff},
	} {
		size := int(dtypeSizes[dt])
		put := func(data []byte, i int, bits uint32) {
			if size == 4 {
				binary.LittleEndian.PutUint32(data[4*i:], bits)
			} else {
				binary.LittleEndian.PutUint16(data[2*i:], uint16(bits))
			}
		}
		for _, n := range []int{0, 1, 3, 4, 7, 8, 13, 16, 35} {
			data := make([]byte, n*size)
			for i := range n { // zeros, negative zeros, the largest values, subnormals
				put(data, i, []uint32{0, 0x80008000, bad[0] - 1, 1}[i%4])
			}
			if i := NotFinite(data, dt); i != -1 {
				t.Errorf("%v: element %d of %d is taken for an infinity", dt, i, n)
			}
			for i := range n {
				for _, bits := range bad {
					one := append([]byte(nil), data...)
					put(one, i, bits)
					if got := NotFinite(one, dt); got != i {
						t.Errorf("%v: %x at %d of %d is found at %d", dt, bits, i, n, got)
					}
				}
			}
		}
	}
	if i := NotFinite([]byte{255, 255, 255, 255}, "I32"); i != -1 {
		t.Errorf("a whole number is not finite: %d", i)
	}
}

func BenchmarkNotFinite(b *testing.B) {
	data := make([]byte, 1<<26)
	b.SetBytes(1 << 26)
	for b.Loop() {
		NotFinite(data, "F32")
	}
}
