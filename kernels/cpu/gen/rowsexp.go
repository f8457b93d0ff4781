package main

// The exponential of the row routines is e^x = 2^n e^r with n = round(x log2 e), ln 2 in two parts so that
// r is exact to fp32, and the polynomial of Cephes' expf for e^r, |r| <= ln 2 / 2. Relative error below
// 2e-7 (../rows_test.go); 0 below -104, infinite above 88.73.

// expRegisters are the constants of exp, from register first on.
type expRegisters struct{ first int }

var expConstants = []float64{
	-104, 89, 1.44269504088896341, 0.693359375, -2.12194440e-4,
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1,
}

const (
	expLow = iota
	expHigh
	expLog2E
	expLn2High
	expLn2Low
	expPoly
	expOne = 11
)

// loadExp fills the constants. AVX2 has too few registers, so it has those of the polynomial in memory.
func (f *file) loadExp(v isa, first int) {
	for i, c := range expConstants {
		if v.wide() || i < 2 {
			f.constant(v, c, first+i)
		} else if i == expOne {
			f.constant(v, c, first+2)
		}
	}
}

// expConstant is the operand of constant i.
func (f *file) expConstant(v isa, first, i int) string {
	switch {
	case v.wide() || i < 2:
		return v.reg(first + i)
	case i == expOne:
		return v.reg(first + 2)
	}
	return memory(i)
}
