package kernels

import (
	"math"
	"testing"
)

// TestHalfRoundsToNearest: every fp16 and bf16 value converts to itself, and numbers between neighbours round to the nearer one,
// ties to the even one.
func TestHalfRoundsToNearest(t *testing.T) {
	for _, c := range []struct {
		name string
		to   func(float32) uint16
		from func(uint16) float32
		inf  uint16 // bits of infinity; the positive numbers are below it
	}{{"bf16", ToBF16, FromBF16, 0x7f80}, {"f16", ToF16, FromF16, 0x7c00}} {
		for h := uint16(0); h < c.inf; h++ {
			x := c.from(h)
			if c.to(x) != h || c.to(-x) != h|0x8000 {
				t.Fatalf("%s: %#x is the number %v, which converts to %#x", c.name, h, x, c.to(x))
			}
			if h+1 == c.inf {
				break
			}
			middle := float32((float64(x) + float64(c.from(h+1))) / 2)
			even := h + h&1
			below, above := math.Nextafter32(middle, -1), math.Nextafter32(middle, math.MaxFloat32)
			if c.to(middle) != even || c.to(below) != h || c.to(above) != h+1 {
				t.Fatalf("%s: numbers just below, at and just above %v give %#x, %#x, %#x; want %#x, %#x, %#x", c.name, middle, c.to(below),
					c.to(middle), c.to(above), h, even, h+1)
			}
		}
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		if c.to(inf) != c.inf || c.to(-inf) != c.inf|0x8000 || c.from(c.inf) != inf {
			t.Errorf("%s: infinities are not kept", c.name)
		}
		for _, bits := range []uint32{0x7f800001, 0xffffffff, math.Float32bits(nan)} {
			if got := c.from(c.to(math.Float32frombits(bits))); got == got {
				t.Errorf("%s: NaN with the bits %#x becomes %v", c.name, bits, got)
			}
		}
	}
	// The largest number of fp16 is 65504, the next would be 65536: from the middle on, numbers become infinity.
	if ToF16(65519.996) != 0x7bff || ToF16(65520) != 0x7c00 || ToF16(1e9) != 0x7c00 {
		t.Errorf("f16: 65519.996, 65520 and 1e9 become %#x, %#x, %#x; want 0x7bff, 0x7c00, 0x7c00", ToF16(65519.996), ToF16(65520), ToF16(1e9))
	}
}
