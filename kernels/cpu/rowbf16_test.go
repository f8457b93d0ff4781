package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"latentbeam/kernels"
)

// TestFusedSteps: some tiers have routines that do several steps at once and round to bf16 after each. They give the bits of separate steps, for
// every length, and write nothing outside the row.
func TestFusedSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	onTiers(t, func(t *testing.T, tier *tier) {
		m := &tier.row
		if m.modulateBF16 == nil {
			t.Skip("the tier has no such routines")
		}
		for n := 2; n < 140; n += 2 {
			var x, a, b, out []float32
			for range n {
				x, a, b = append(x, r.Float32()*6-3), append(a, r.Float32()*2), append(b, r.Float32()-0.5)
			}
			out = make([]float32, n)
			check := func(name string, fused func(dst []uint16), steps func()) {
				t.Helper()
				got, want := make([]uint16, n+1), make([]uint16, n+1)
				got[n], want[n] = 77, 77
				fused(got[:n])
				steps()
				m.narrow[kernels.BF16](want[:n], out)
				if !slices.Equal(got, want) {
					t.Fatalf("%s of %d numbers: got %x, want %x", name, n, got, want)
				}
			}
			round := m.round[kernels.BF16]
			check("standard", func(dst []uint16) { m.standardBF16(dst, x, 0.2, 1.3) }, func() {
				m.standard(out, x, 0.2, 1.3)
			})
			check("weigh", func(dst []uint16) { m.weighBF16(dst, x, a, 0.2, 1.3) }, func() {
				m.standard(out, x, 0.2, 1.3)
				round(out)
				m.mul(out, out, a)
			})
			check("modulate", func(dst []uint16) { m.modulateBF16(dst, x, a, b, 0.2, 1.3) }, func() {
				m.standard(out, x, 0.2, 1.3)
				round(out)
				m.mul(out, out, a)
				round(out)
				m.add(out, out, b)
			})
			rotation := &rotation{dst: rows{view: &view{}}}
			rotation.dst.DType = kernels.BF16
			check("rotate", func(dst []uint16) { m.rotateBF16(dst, x, a[:n/2], b[:n/2]) }, func() {
				rotation.rounded(&worker{}, m, out, x, a[:n/2], b[:n/2])
			})
		}
	})
}

// TestBinaryBF16 compares sums and products of bf16 with rounded fp32 results, for numbers of all magnitudes, infinities and
// NaN.
func TestBinaryBF16(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	onTiers(t, func(t *testing.T, tier *tier) {
		for op, fused := range tier.row.binaryBF16 {
			if fused == nil {
				t.Skip("the tier has no such routines")
			}
			for n := range 140 {
				a, b, got, want := make([]uint16, n), make([]uint16, n), make([]uint16, n+1), make([]uint16, n+1)
				for i := range n {
					a[i], b[i] = uint16(r.Uint32()), uint16(r.Uint32())
					x, y := kernels.FromBF16(a[i]), kernels.FromBF16(b[i])
					want[i] = kernels.ToBF16([]float32{x + y, x * y}[op])
				}
				got[n], want[n] = 77, 77
				fused(got[:n], a, b)
				if !slices.Equal(got, want) {
					t.Fatalf("operation %d (0: add, 1: multiply) on %x and %x: got %x, want %x", op, a, b, got, want)
				}
			}
		}
	})
}
