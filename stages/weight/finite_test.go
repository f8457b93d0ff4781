package weight

import (
	"encoding/binary"
	"math"
	"testing"

	"latentbeam/kernels"
)

// TestNotFinite: an infinity or a NaN is found at every place, and nothing else is taken for one.
func TestNotFinite(t *testing.T) {
	for dt, bad := range map[kernels.DType][]uint32{
		kernels.F32:  {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff},
		kernels.BF16: {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff},
		kernels.F16:  {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff},
	} {
		put := func(data []byte, i int, bits uint32) {
			if dt == kernels.F32 {
				binary.LittleEndian.PutUint32(data[4*i:], bits)
			} else {
				binary.LittleEndian.PutUint16(data[2*i:], uint16(bits))
			}
		}
		for _, n := range []int{0, 1, 3, 4, 7, 8, 13} {
			data := make([]byte, n*dt.Size())
			for i := range n { // zeros, negative zeros, the largest values, subnormals
				put(data, i, []uint32{0, 0x80008000, bad[0] - 1, 1}[i%4])
			}
			if i := notFinite(data, dt); i != -1 {
				t.Errorf("%v: element %d of %d is taken for an infinity: %g", dt, i, n, dt.At(data, i))
			}
			for i := range n {
				for _, bits := range bad {
					one := append([]byte(nil), data...)
					put(one, i, bits)
					if got := notFinite(one, dt); got != i {
						t.Errorf("%v: %x at %d of %d is found at %d", dt, bits, i, n, got)
					}
				}
			}
		}
	}
	if finite(float32(math.Inf(1))) || finite(float32(math.NaN())) || !finite(-math.MaxFloat32) {
		t.Error("finite is wrong")
	}
}

func BenchmarkNotFinite(b *testing.B) {
	data := make([]byte, 1<<26)
	b.SetBytes(1 << 26)
	for b.Loop() {
		notFinite(data, kernels.F32)
	}
}
