package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"latentbeam/kernels"
)

// sharedTiers returns the tiers that compute a class on this processor.
func sharedTiers(class string) (all []*tier) {
	for _, t := range tiers() {
		if t.name == class {
			all = append(all, t)
		}
	}
	return all
}

// TestPairs: products of bf16 pairs are added with the same bits in all tiers of the class avx512bf16, for any numbers, including subnormal
// ones, infinities and NaN. The first tier uses the processor's instructions for pairs, if it has them.
func TestPairs(t *testing.T) {
	const m, n, k = 7, 83, 45
	r := rand.New(rand.NewPCG(3, 4))
	for turn := range 400 {
		element := func() uint16 {
			// The exponents are, by turn: near 1, any, small, smaller, or such that products are subnormal.
			exp := [...]int{120 + r.IntN(14), r.IntN(256), 40 + r.IntN(60), r.IntN(90), 56 + r.IntN(8)}[turn%5]
			return uint16(r.IntN(2)<<15 | exp<<7 | r.IntN(128))
		}
		a, b, start := make([]uint16, m*k), make([]uint16, n*k), make([]float32, m*n)
		for _, list := range [][]uint16{a, b} {
			for i := range list {
				list[i] = element()
			}
		}
		for i := range start {
			start[i] = kernels.FromBF16(element())
		}
		var want []float32
		for _, tier := range sharedTiers("avx512bf16") {
			got := pairSums(tier, a, b, start, m, n, k)
			if want == nil {
				want = got
			}
			for i, x := range want {
				if math.Float32bits(got[i]) != math.Float32bits(x) && (x == x || got[i] == got[i]) {
					t.Fatalf("turn %d: sum %d of tier %v is %x, want %x", turn, i, tier, math.Float32bits(got[i]), math.Float32bits(x))
				}
			}
		}
	}
}

// pairSums adds the products of a (m, k) and b (n, k) to start.
func pairSums(tier *tier, a, b []uint16, start []float32, m, n, k int) []float32 {
	d := tier.dotFor(kernels.BF16, kernels.BF16)
	terms := d.terms(k)
	left, packed := make([]uint32, m*terms), make([]float32, tier.padded(n)*terms)
	for i := range m {
		if d == dotBF16 {
			copy(unsafe.Slice((*uint16)(unsafe.Pointer(&left[i*terms])), 2*terms), a[i*k:(i+1)*k])
			continue
		}
		for j, h := range a[i*k : (i+1)*k] {
			left[i*terms+j] = uint32(h) << 16
		}
	}
	tier.packNK(packing{dst: unsafe.Pointer(&packed[0]), depth: terms, dot: d, src: unsafe.Pointer(&b[0]), stride: 2 * k,
		dtype: kernels.BF16}, n, k)
	width := tier.padded(n)
	sums := make([]float32, m*width)
	for i := range m {
		copy(sums[i*width:], start[i*n:(i+1)*n])
	}
	zero := int64(0)
	tier.multiply(&reduce{c: unsafe.Pointer(&sums[0]), ldc: 4 * width, blocks: 1, offs: unsafe.Pointer(&zero),
		a: unsafe.Pointer(&left[0]), lda: 4 * terms, b: unsafe.Pointer(&packed[0]), k: terms, add: 1}, d, m, n)
	out := make([]float32, 0, m*n)
	for i := range m {
		out = append(out, sums[i*width:][:n]...)
	}
	return out
}

// TestSoftRounding: all tiers of the class avx512bf16 round numbers to bf16 as roundSoftGo does, for any length of a row.
func TestSoftRounding(t *testing.T) {
	hard := hardFloats()
	for n := 1; n < len(hard); n += 1 + n/3 {
		want := append([]float32(nil), hard[:n]...)
		roundSoftGo(want)
		for _, tier := range sharedTiers("avx512bf16") {
			got := append([]float32(nil), hard[:n]...)
			tier.row.round[kernels.BF16](got)
			for i, x := range want {
				if math.Float32bits(got[i]) != math.Float32bits(x) && x == x {
					t.Fatalf("%v: %x becomes %x, want %x", tier, math.Float32bits(hard[i]), math.Float32bits(got[i]), math.Float32bits(x))
				}
			}
		}
	}
}

// TestFused: fma32 gives the result of an fp32 fused multiply-add, which rounds once, for numbers that cancel and are hard to round.
func TestFused(t *testing.T) {
	hard := append(hardFloats(), 1, -1, 0x1p-149, -0x1p-126, 1+0x1p-23)
	r := rand.New(rand.NewPCG(5, 6))
	exact := tiers()[0]
	if exact.kernels[dotF32] == nil || exact == portable {
		t.Skip("this processor has no fused multiply-add")
	}
	for range 20000 {
		a, b, c := hard[r.IntN(len(hard))], hard[r.IntN(len(hard))], hard[r.IntN(len(hard))]
		if r.IntN(2) == 0 {
			c = -float32(a*b) * (1 + float32(r.IntN(3)-1)*0x1p-23)
		}
		row := []float32{a}
		exact.row.affine(row, row, []float32{b}, []float32{c}, 0, 1)
		if got := fma32(b, a, c); math.Float32bits(got) != math.Float32bits(row[0]) && got == got {
			t.Fatal(fmt.Sprintf("%x %x %x", math.Float32bits(a), math.Float32bits(b), math.Float32bits(c)), got, row[0])
		}
	}
}
