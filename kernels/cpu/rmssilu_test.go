package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"latentbeam/kernels"
)

// TestRowsTogether: some tiers have a routine that does RMSNorm, with or without SiLU, on many rows in one call. It gives the bits of the
// routines for single rows, for every length and for numbers of all magnitudes, and writes nothing outside the rows.
func TestRowsTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	onTiers(t, func(t *testing.T, routines *tier) {
		if routines.row.rmsSilu[kernels.F32] == nil {
			t.Skip("the tier has no routine for many rows")
		}
		alone := *routines // the same tier without the routines for many rows
		alone.row.rmsSilu, alone.row.rmsHeads = [kernels.BF16 + 1]rmsFunc{}, [kernels.BF16 + 1]rmsFunc{}
		for _, n := range slices.Concat(lengths(70), []int{72, 96, 128, 160, 192, 255, 256, 257, 320, 384, 1024}) {
			for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
				const rows = 5
				x, w := make([]float32, rows*(n+3)), make([]float32, n)
				for i := range x {
					x[i] = float32(r.NormFloat64() * math.Pow(10, float64(i%7-3)))
				}
				for i := range w {
					w[i] = float32(r.NormFloat64())
				}
				x[n/2], x[n+3] = float32(math.Inf(-1)), 1e-40
				for _, act := range []kernels.UnaryOp{kernels.Identity, kernels.SiLU} {
					for _, inPlace := range []bool{false, true} {
						run := func(by *tier) []float32 {
							be := New(1)
							be.tier = by
							src, weight := be.Alloc(dt, rows, n+3), be.Alloc(dt, n)
							dst := be.Alloc(dt, rows, n+3)
							be.Upload(src, x)
							be.Upload(weight, w)
							be.Upload(dst, x)
							if inPlace {
								dst = src
							}
							be.Norm(dst.Narrow(1, 1, n), src.Narrow(1, 1, n), kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6,
								Weight: weight, Act: act})
							out := make([]float32, dst.Len())
							if err := be.Download(out, dst); err != nil {
								t.Fatal(err)
							}
							return out
						}
						sameBits(t, fmt.Sprint(n, dt, act, inPlace), run(routines), run(&alone))
					}
				}
			}
		}
	})
}

// lengths returns 1 to n.
func lengths(n int) (out []int) {
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// sameBits compares bits. All NaNs count as equal.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, v := range want {
		if math.Float32bits(got[i]) != math.Float32bits(v) && (got[i] == got[i] || v == v) {
			t.Fatalf("%s: value %d is %g, want %g", what, i, got[i], v)
		}
	}
}
