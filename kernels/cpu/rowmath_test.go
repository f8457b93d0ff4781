package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"latentbeam/kernels"
)

// onTiers runs f for each tier of this processor. A tier is a set of routines for some instructions, such as AVX2.
func onTiers(t *testing.T, f func(t *testing.T, tier *tier)) {
	for _, tier := range allTiers() {
		t.Run(tier.String(), func(t *testing.T) { f(t, tier) })
	}
}

// hardFloats returns numbers that are hard to round: zeros, subnormals, ties, the ends of the range, infinities and NaN, and 3,000 random bit
// patterns.
func hardFloats() []float32 {
	r := rand.New(rand.NewPCG(7, 8))
	var list []float32
	for _, high := range []uint32{0, 1, 0x007f, 0x0080, 0x3300, 0x3880, 0x3f80, 0x477f, 0x4780, 0x7f7f,
		0x7f80, 0x7fc0} {
		for _, low := range []uint32{0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff} {
			for sign := range uint32(2) {
				list = append(list, math.Float32frombits(sign<<31|high<<16|low))
			}
		}
	}
	for range 3000 {
		list = append(list, math.Float32frombits(r.Uint32()))
	}
	return list
}

// TestConversions: every tier converts every 16-bit number to fp32, and rounds hardFloats, like package kernels, for any
// length.
func TestConversions(t *testing.T) {
	scalar := map[kernels.DType]struct {
		widen  func(uint16) float32
		narrow func(float32) uint16
	}{kernels.BF16: {kernels.FromBF16, kernels.ToBF16}, kernels.F16: {kernels.FromF16, kernels.ToF16}}
	onTiers(t, func(t *testing.T, tier *tier) {
		for dt, want := range scalar {
			all, wide := make([]uint16, 1<<16), make([]float32, 1<<16)
			for i := range all {
				all[i] = uint16(i)
			}
			tier.row.widen[dt](wide, all)
			for i, x := range wide {
				if w := want.widen(all[i]); math.Float32bits(x) != math.Float32bits(w) && w == w {
					t.Fatalf("%v with the bits %#x becomes %v, want %v", dt, i, x, w)
				}
			}
			hard := hardFloats()
			for n := 0; n < len(hard); n += 1 + n/3 {
				half := make([]uint16, n+1)
				half[n] = 0x1234
				tier.row.narrow[dt](half[:n], hard[:n])
				for i, h := range half[:n] {
					w := want.narrow(hard[i])
					if h != w && !(hard[i] != hard[i] && want.widen(h) != want.widen(h)) {
						t.Fatalf("the fp32 with the bits %[2]x becomes the %[1]v %#[3]x, want %#[4]x", dt, math.Float32bits(hard[i]), h, w)
					}
				}
				if half[n] != 0x1234 {
					t.Fatalf("%v: narrowing %d numbers has written one more", dt, n)
				}
			}
		}
	})
}

// TestActivations compares the activations of every tier with float64. The error is below 2e-7 times the larger of 1 and the result.
// For arguments above -4 it is also below a small fraction of the result itself.
func TestActivations(t *testing.T) {
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	gelu := func(x float64) float64 {
		return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	var x []float32
	for v := float32(-120); v < 120; v += 0.00731 {
		x = append(x, v)
	}
	onTiers(t, func(t *testing.T, tier *tier) {
		for _, c := range []struct {
			name     string
			f        func(dst, src []float32)
			want     func(float64) float64
			relative float64
		}{{"silu", tier.row.silu, silu, 2e-7}, {"gelu", tier.row.gelu, gelu, 2e-6}} {
			got := make([]float32, len(x))
			c.f(got, x)
			worst, worstAbs := 0.0, 0.0
			for i, g := range got {
				w := c.want(float64(x[i]))
				diff := math.Abs(float64(g) - w)
				worstAbs = max(worstAbs, diff/max(1, math.Abs(w)))
				if x[i] > -4 {
					worst = max(worst, diff/max(math.Abs(w), 0x1p-126))
				}
			}
			t.Logf("%s: relative error %.2g above -4, absolute %.2g", c.name, worst, worstAbs)
			if worst > c.relative || worstAbs > 2e-7 {
				t.Errorf("%s: the relative error above -4 is %v, want at most %v; the absolute error is %v, want at most 2e-7", c.name, worst,
					c.relative, worstAbs)
			}
		}
	})
}

// TestRows compares every routine with float64 for every length up to some vectors. The result of an element must not depend on its
// position in the row, and nothing outside the row may be written.
func TestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = r.Float32()*4 - 2
		}
		return list
	}
	onTiers(t, func(t *testing.T, tier *tier) {
		m := &tier.row
		for n := range 140 {
			x, y, z, mean := random(n), random(n), random(n), random(n)
			for name, c := range map[string]struct {
				run  func(dst []float32, from, to int)
				want func(i int) float64
			}{
				"add": {func(d []float32, a, b int) { m.add(d, x[a:b], y[a:b]) },
					func(i int) float64 { return float64(x[i]) + float64(y[i]) }},
				"mul": {func(d []float32, a, b int) { m.mul(d, x[a:b], y[a:b]) },
					func(i int) float64 { return float64(x[i]) * float64(y[i]) }},
				"center": {func(d []float32, a, b int) { m.center(d, x[a:b], mean[a:b], y[a:b], z[a:b]) },
					func(i int) float64 { return (float64(x[i])-float64(mean[i]))*float64(y[i]) + float64(z[i]) }},
				"standard": {func(d []float32, a, b int) { m.standard(d, x[a:b], 0.3, 1.7) },
					func(i int) float64 { return (float64(x[i]) - 0.3) * 1.7 }},
				"weigh": {func(d []float32, a, b int) { m.weigh(d, x[a:b], y[a:b], 0.3, 1.7) },
					func(i int) float64 { return (float64(x[i]) - 0.3) * 1.7 * float64(y[i]) }},
				"affine": {func(d []float32, a, b int) { m.affine(d, x[a:b], y[a:b], z[a:b], 0.3, 1.7) },
					func(i int) float64 { return (float64(x[i])-0.3)*1.7*float64(y[i]) + float64(z[i]) }},
				"modulate": {func(d []float32, a, b int) { m.modulate(d, x[a:b], y[a:b], z[a:b], 0.3, 1.7) },
					func(i int) float64 { return (float64(x[i])-0.3)*1.7*(1+float64(y[i])) + float64(z[i]) }},
			} {
				checkRow(t, fmt.Sprint(name, " of ", n), n, c.run, c.want)
			}
		}
	})
}

// checkRow runs a routine on a row of n elements and on each element alone, and compares with want.
func checkRow(
	t *testing.T, name string, n int, run func(dst []float32, from, to int), want func(i int) float64,
) {
	t.Helper()
	whole := make([]float32, n+1)
	whole[n] = 77
	run(whole[:n], 0, n)
	for i := range n {
		var alone [1]float32
		run(alone[:], i, i+1)
		if math.Float32bits(alone[0]) != math.Float32bits(whole[i]) {
			t.Fatalf("%s: element %d is %v in the row and %v alone", name, i, whole[i], alone[0])
		}
		if w := want(i); math.Abs(float64(whole[i])-w) > 2e-6 {
			t.Fatalf("%s: element %d is %v, want %v", name, i, whole[i], w)
		}
	}
	if whole[n] != 77 {
		t.Fatalf("%s: the element behind the row was written", name)
	}
}

// TestRowSums compares the sum and the sum of squares of a row and of columns with float64, for all lengths of rows and numbers of columns.
func TestRowSums(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	onTiers(t, func(t *testing.T, tier *tier) {
		near := func(what string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-12*(1+math.Abs(want))) {
				t.Errorf("%s is %v, want %v", what, got, want)
			}
		}
		for n := range 140 {
			const rows = 5
			stride := n + 3
			x := make([]float32, rows*stride)
			for i := range x {
				x[i] = 1000 + r.Float32()
			}
			sum, squares := 0.0, 0.0
			for _, v := range x[:n] {
				sum += float64(v)
				squares += (float64(v) - 1000.5) * (float64(v) - 1000.5)
			}
			near(fmt.Sprint("the sum of ", n), tier.row.sum(x[:n]), sum)
			near(fmt.Sprint("squares of ", n), tier.row.squares(x[:n], 1000.5), squares)
			sums, seconds := make([]float64, n+1), make([]float64, n+1)
			sums[n], seconds[n] = 7, 7
			tier.row.columnMoments(sums[:n], seconds[:n], x, rows, stride)
			for j := range n {
				sum, squares = 0, 0
				for i := range rows {
					v := float64(x[i*stride+j])
					sum += v
					squares += v * v
				}
				near(fmt.Sprint("column ", j, " of ", n), sums[j], sum)
				near(fmt.Sprint("squares of column ", j, " of ", n), seconds[j], squares)
			}
			if sums[n] != 7 || seconds[n] != 7 {
				t.Errorf("the sums of %d columns have written one more", n)
			}
		}
	})
}
