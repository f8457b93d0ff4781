package main

import "math"

// rows is the family of routines on rows of fp32.
func rows(v isa) func() *file {
	return func() *file {
		f := newFile(v.file)
		f.tables(v)
		f.binary(v, "addRow", "VADDPS", "adds a and b.")
		f.binary(v, "mulRow", "VMULPS", "multiplies a by b.")
		f.silu(v)
		f.gelu(v)
		f.rotate(v)
		f.sum(v)
		f.squares(v)
		f.columnMoments(v)
		f.center(v)
		for _, s := range scalings {
			f.standardize(v, s)
		}
		f.conversions(v)
		return f
	}
}

func (f *file) binary(v isa, name, op, doc string) {
	f.fn(name+v.name, "dst, a, b []float32", 72, doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ a_base+24(FP), SI\nMOVQ b_base+48(FP), DX")
	f.overRow(v, 4, []stream{{"DI", 4}, {"SI", 4}, {"DX", 4}}, func(n int, masked bool) {
		for i := range n {
			f.load(v, i*v.width, "SI", i, masked)
			f.load(v, i*v.width, "DX", 4+i, masked)
		}
		for i := range n {
			f.p("%s %s, %s, %s", op, v.reg(4+i), v.reg(i), v.reg(i))
			f.save(v, i, i*v.width, "DI", masked)
		}
	})
	f.ret()
}

func (f *file) silu(v isa) {
	f.sigmoidal(v, "siluRow", "computes x / (1 + e^-x).", [2]float64{-1}, func(i, j, a, _ string) {
		f.p("VMULPS %s, %s, %s", i, a, j)
	})
}

// gelu uses 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)), which avoids the loss of precision of 1 + tanh.
func (f *file) gelu(v isa) {
	c := -2 * math.Sqrt(2/math.Pi)
	doc := "computes x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3)."
	f.sigmoidal(v, "geluRow", doc, [2]float64{0.044715 * c, c}, func(i, j, a, b string) {
		f.p("VMULPS %s, %s, %s", i, i, j)
		f.p("VFMADD213PS %s, %s, %s", b, a, j) // x^2 a + b
		f.p("VMULPS %s, %s, %s", i, j, j)
	})
}

// rotate rotates pairs of elements.
func (f *file) rotate(v isa) {
	f.fn("rotateRow"+v.name, "dst, src, cos, sin []float32", 96,
		"rotates the pairs of src, whose length is even.")
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
	f.p("MOVQ cos_base+48(FP), DX\nMOVQ sin_base+72(FP), BX")
	f.overRow(v, 1, []stream{{"DI", 4}, {"SI", 4}, {"DX", 2}, {"BX", 2}}, func(_ int, masked bool) {
		f.load(v, 0, "SI", 0, masked)
		f.rotation(v, partOf(masked))
		f.p("VFMADDSUB213PS %s, %s, %s", v.reg(3), v.reg(1), v.reg(0)) // even lanes minus, odd plus
		f.save(v, 0, 0, "DI", masked)
	})
	f.ret()
}

// rotation takes a vector in register 0. It loads the cosines at DX into register 1, and writes to register 3 the other element of
// each lane's pair times the sine at BX. A cosine or sine belongs to two lanes: it is widened to 64 bits and copied to the odd lane.
// Half a vector is supported for AVX-512 only.
func (f *file) rotation(v isa, p part) {
	if p == tail && v.wide() { // needs a mask for half as many lanes
		f.p("SHRQ $1, CX\nMOVL $1, AX\nSHLL CX, AX\nDECL AX\nKMOVW AX, K2")
	} else if p == tail { // CX contains the bytes of the tail
		f.p("LEAQ tail256<>+32(SB), AX\nSHRQ $1, CX\nSUBQ CX, AX\nVMOVUPS (AX), X14")
	}
	for i, from := range []string{1: "DX", 2: "BX"} {
		switch {
		case from == "":
			continue
		case v.wide() && p == tail:
			f.p("VPMOVZXDQ.Z (%s), K2, Z%d", from, i)
		case p == tail:
			f.p("VMASKMOVPS (%s), X14, X%d\nVPMOVZXDQ X%d, Y%d", from, i, i, i)
		case p == half:
			f.p("VPMOVZXDQ (%s), Y%d", from, i)
		default:
			f.p("VPMOVZXDQ (%s), %s", from, v.reg(i))
		}
		f.p("VMOVSLDUP %s, %s", v.reg(i), v.reg(i))
	}
	f.p("VPERMILPS $0xb1, %s, %s\nVMULPS %s, %s, %s", v.reg(0), v.reg(3), v.reg(2), v.reg(3), v.reg(3))
}

// partOf returns the part of a vector with or without the tail mask.
func partOf(masked bool) part {
	if masked {
		return tail
	}
	return whole
}
