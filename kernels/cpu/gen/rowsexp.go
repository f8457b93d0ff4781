package main

import "fmt"

// The row routines compute the exponential as e^x = 2^n e^r, with n = round(x log2 e) and r = x - n ln 2, where ln 2 is the sum of
// two constants. e^r is the polynomial of Cephes' expf. The relative error is below 2e-7. The result is 0 below -104 and infinite
// above 88.73.
var expConstants = []float64{
	expLow: -104, expHigh: 89, expLog2E: 1.44269504088896341, expLn2High: 0.693359375,
	expLn2Low: -2.12194440e-4, expPoly: 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
	1.6666665459e-1, 5.0000001201e-1, expOne: 1,
}

const (
	expLow     = 0
	expHigh    = 1
	expLog2E   = 2
	expLn2High = 3
	expLn2Low  = 4
	expPoly    = 5 // six coefficients, the highest power first
	expOne     = 11
)

// expAt returns the operand of constant i: register 20+i, or memory for AVX2, which has too few registers.
func expAt(v isa, i int) string {
	if v.wide() {
		return v.reg(20 + i)
	}
	return fmt.Sprintf("exp256<>+%d(SB)", 32*i)
}

// loadExp loads the constants into their registers.
func (f *file) loadExp(v isa) {
	if v.wide() {
		for i, c := range expConstants {
			f.constant(v, c, 20+i)
		}
		return
	}
	f.p("VMOVUPS %s, Y14\nVMOVUPS %s, Y13\nVMOVUPS %s, Y12", expAt(v, expLow), expAt(v, expHigh), expAt(v, expOne))
}

// exp computes e^x of the vectors x[i] into p[i]. It overwrites x[i] and t[i].
func (f *file) exp(v isa, x, p, t []int) {
	low, high := expAt(v, expLow), expAt(v, expHigh)
	if !v.wide() {
		low, high = "Y14", "Y13"
	}
	each := func(format string, args func(i int) []any) {
		for i := range x {
			f.p(format, args(i)...)
		}
	}
	r := func(regs []int, i int) string { return v.reg(regs[i]) }
	// With this order of operands the result is NaN if x is NaN.
	each("VMAXPS %s, "+low+", %s", func(i int) []any { return []any{r(x, i), r(x, i)} })
	each("VMINPS %s, "+high+", %s", func(i int) []any { return []any{r(x, i), r(x, i)} })
	each("VMULPS "+expAt(v, expLog2E)+", %s, %s", func(i int) []any { return []any{r(x, i), r(t, i)} })
	round := "VRNDSCALEPS $0, %s, %s"
	if !v.wide() {
		round = "VROUNDPS $0, %s, %s"
	}
	each(round, func(i int) []any { return []any{r(t, i), r(t, i)} })
	each("VFNMADD231PS "+expAt(v, expLn2High)+", %s, %s", func(i int) []any { return []any{r(t, i), r(x, i)} })
	each("VFNMADD231PS "+expAt(v, expLn2Low)+", %s, %s", func(i int) []any { return []any{r(t, i), r(x, i)} })
	each("VMOVUPS "+expAt(v, expPoly)+", %s", func(i int) []any { return []any{r(p, i)} })
	for _, c := range []int{expPoly + 1, expPoly + 2, expPoly + 3, expPoly + 4, expPoly + 5, expOne, expOne} {
		each("VFMADD213PS "+expAt(v, c)+", %s, %s", func(i int) []any { return []any{r(x, i), r(p, i)} })
	}
	if v.wide() {
		each("VSCALEFPS %s, %s, %s", func(i int) []any { return []any{r(t, i), r(p, i), r(p, i)} })
		return
	}
	for i := range x { // multiplies by two powers of two, each in the range of fp32
		f.p("VCVTPS2DQ %s, %s\nVPSRAD $1, %s, %s", r(t, i), r(t, i), r(t, i), r(x, i))
		f.p("VPSUBD %s, %s, %s", r(x, i), r(t, i), r(t, i))
		for _, n := range []string{r(x, i), r(t, i)} {
			f.p("VPSLLD $23, %s, %s\nVPADDD Y12, %s, %s", n, n, n, n) // the bits of 1 are 127 << 23
			f.p("VMULPS %s, %s, %s", n, r(p, i), r(p, i))
		}
	}
}

// vectors returns the registers of n vectors.
func vectors(first, n int) []int {
	regs := make([]int, n)
	for i := range regs {
		regs[i] = first + i
	}
	return regs
}

// sigmoidal writes a routine for x / (1 + e^t). exponent writes the code that computes t in register j from x in register i. The
// two constants are in registers a and b.
func (f *file) sigmoidal(v isa, name, doc string, constants [2]float64, exponent func(i, j, a, b string)) {
	unroll := 4
	if !v.wide() {
		unroll = 2
	}
	f.fn(name+v.name, "dst, src []float32", 48, doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
	f.loadExp(v)
	a, b := 4*unroll, 4*unroll+1
	f.constant(v, constants[0], a)
	f.constant(v, constants[1], b)
	one := expAt(v, expOne)
	f.overRow(v, unroll, []stream{{"DI", 4}, {"SI", 4}}, func(n int, masked bool) {
		x, t, p, spare := vectors(0, n), vectors(unroll, n), vectors(2*unroll, n), vectors(3*unroll, n)
		for i := range n {
			f.load(v, i*v.width, "SI", x[i], masked)
			exponent(v.reg(x[i]), v.reg(t[i]), v.reg(a), v.reg(b))
		}
		f.exp(v, t, p, spare)
		for i := range n {
			f.p("VADDPS %s, %s, %s", one, v.reg(p[i]), v.reg(p[i]))
			f.p("VDIVPS %s, %s, %s", v.reg(p[i]), v.reg(x[i]), v.reg(x[i]))
			f.save(v, x[i], i*v.width, "DI", masked)
		}
	})
	f.ret()
}
