package main

import "fmt"

// int8s is the family of products of 8-bit numbers with int32 sums, of rounding fp32 rows to 8 bits before them, and of converting
// the sums to fp32 after them. Integer sums are exact, so all instruction sets give the same bits.
func int8s() *file {
	f := newFile("int8")
	f.tables(isa256)
	for i := range 8 { // lowBytes moves the low bytes of four dwords next to each other
		f.data("lowBytes<>", 4*i, map[bool]uint32{true: 0x0c080400, false: 0x80808080}[i%4 == 0])
	}
	f.global("lowBytes<>", 32)
	rows := map[int][]int{}
	for v := 1; v <= 4; v++ {
		rows[v] = rows512[v]
		for _, r := range rows[v] {
			t := tile512(r, v, dotBytes512)
			t.integer = true
			f.gemm(fmt.Sprintf("gemm512int8r%dx%d", r, v), t, unroll512(r))
		}
	}
	f.table("kernels512Int8", "holds the micro-kernels for bytes of AVX512_VNNI by vectors and rows.", "gemm512int8r", rows, 4)
	for _, r := range rows256[2] {
		t := tile{rows: r, vectors: 2, width: 32, reg: y, acc0: 16 - 2*r, spread: 2, clear: "VPXOR", multiply: dotBytes256, integer: true}
		f.gemm(fmt.Sprintf("gemm256int8r%dx2", r), t, 4)
		t.spread, t.multiply, t.bytewise = 1, dotWords256, true
		f.gemm(fmt.Sprintf("gemm256wordsr%dx2", r), t, 4)
	}
	f.table("kernels256Int8", "holds the micro-kernels for bytes of AVX-VNNI.", "gemm256int8r", rows256, 2)
	f.table("kernels256Words", "holds the micro-kernels for bytes of AVX2. They widen to 16 bits, so no sum saturates.", "gemm256wordsr", rows256, 2)
	for _, v := range []isa{isa512, isa256} {
		f.largest(v)
		f.quantize(v, false)
		f.restoreRow(v, false)
		f.restoreRow(v, true)
	}
	f.quantize(isa256, true)
	return f
}

// dotBytes512 adds to each int32 of Z[acc] the four products of the unsigned bytes of Z[a] and the signed bytes of Z[b].
func dotBytes512(b, a, acc int) string { return fmt.Sprintf("VPDPBUSD Z%d, Z%d, Z%d", b, a, acc) }

// dotBytes256 is dotBytes512 for AVX-VNNI. The assembler does not know its encoding (VEX.256.66.0F38.W0 50 /r).
func dotBytes256(b, a, acc int) string {
	p0 := (1-acc>>3)<<7 | 1<<6 | (1-b>>3)<<5 | 2
	p1 := (^a&15)<<3 | 1<<2 | 1
	return fmt.Sprintf("LONG $0x50%02x%02xc4; BYTE $0x%02x // VPDPBUSD Y%d, Y%d, Y%d", p1, p0, 0xC0|acc&7<<3|b&7, b, a, acc)
}

// dotWords256 adds to each int32 of Y[acc] the two products of the 16-bit numbers of Y[a] and Y[b]. It overwrites Y3.
func dotWords256(b, a, acc int) string {
	return fmt.Sprintf("VPMADDWD Y%d, Y%d, Y3\nVPADDD Y3, Y%d, Y%d", b, a, acc, acc)
}

// largest finds the largest magnitude as bits without the sign. These bits are ordered like the magnitudes, followed by infinity
// and NaN.
func (f *file) largest(v isa) {
	f.fnResult("largestRow"+v.name, "src []float32", "uint32", 28, "returns the bits of the largest magnitude.")
	f.p("MOVQ src_base+0(FP), SI\nMOVQ src_len+8(FP), CX")
	f.bits(v, 0x7fffffff, 14)
	for i := range 4 {
		f.p("%s %s, %s, %s", v.xor(), v.reg(10+i), v.reg(10+i), v.reg(10+i))
	}
	and := map[bool]string{true: "VPANDD", false: "VPAND"}[v.wide()]
	f.overRow(v, 4, []stream{{"SI", 4}}, func(n int, masked bool) {
		for i := range n {
			f.load(v, i*v.width, "SI", i, masked)
			f.p("%s %s, %s, %s", and, v.reg(14), v.reg(i), v.reg(i))
			f.p("VPMAXUD %s, %s, %s", v.reg(i), v.reg(10+i), v.reg(10+i))
		}
	})
	f.p("VPMAXUD %[1]s, %[2]s, %[2]s\nVPMAXUD %[3]s, %[4]s, %[4]s\nVPMAXUD %[4]s, %[2]s, %[2]s",
		v.reg(11), v.reg(10), v.reg(13), v.reg(12))
	if v.wide() {
		f.p("VEXTRACTI64X4 $1, Z10, Y0\nVPMAXUD Y0, Y10, Y10")
	}
	f.p("VEXTRACTI128 $1, Y10, X0\nVPMAXUD X0, X10, X10\nVPSHUFD $0x4e, X10, X0\nVPMAXUD X0, X10, X10")
	f.p("VPSHUFD $0xb1, X10, X0\nVPMAXUD X0, X10, X10\nVMOVD X10, AX\nMOVL AX, ret+24(FP)")
	f.ret()
}

// quantize rounds a row times a factor to the nearest integers, ties to even.
func (f *file) quantize(v isa, words bool) {
	name, doc, size := "bytesRow", "stores src factor, rounded to integers, plus 128 as bytes. It fills up the last 16 bytes with 128.", 1
	if words {
		name, doc, size = "wordsRow", "stores src factor, rounded to integers, as int16. It fills up the last 16 bytes with 0.", 2
	}
	if !v.wide() && !words {
		doc = "stores src factor, rounded to integers, plus 128 as bytes. It fills up the last 8 bytes with 128."
	}
	f.fn(name+v.name, "dst unsafe.Pointer, src []float32, factor float32", 36, doc)
	f.p("MOVQ dst+0(FP), DI\nMOVQ src_base+8(FP), SI\nMOVQ src_len+16(FP), CX\nVBROADCASTSS factor+32(FP), %s", v.reg(14))
	if !words {
		f.bits(v, 128, 13)
	}
	if !v.wide() && !words {
		f.p("VMOVDQU lowBytes<>(SB), Y12")
	}
	f.overRow(v, 4, []stream{{"DI", size}, {"SI", 4}}, func(n int, masked bool) {
		for i := range n {
			r := v.reg(i)
			f.load(v, i*v.width, "SI", i, masked)
			f.p("VMULPS %s, %s, %s\nVCVTPS2DQ %s, %s", v.reg(14), r, r, r, r)
			switch {
			case words:
				f.p("VPACKSSDW %[1]s, %[1]s, %[1]s\nVPERMQ $8, %[1]s, %[1]s\nVMOVDQU X%[2]d, %[3]d(DI)", r, i, 16*i)
			case v.wide():
				f.p("VPADDD Z13, %[1]s, %[1]s\nVPMOVDB %[1]s, %[2]d(DI)", r, 16*i)
			default:
				f.p("VPADDD Y13, %[1]s, %[1]s\nVPSHUFB Y12, %[1]s, %[1]s\nVMOVD X%[2]d, %[3]d(DI)", r, i, 8*i)
				f.p("VEXTRACTI128 $1, %s, X%d\nVMOVD X%d, %d(DI)", r, i, i, 8*i+4)
			}
		}
	})
	f.ret()
}

// restoreRow converts a row of integer sums to fp32.
func (f *file) restoreRow(v isa, add bool) {
	name, doc := "restoreRow", "computes ((sums - less) scales) factor."
	if add {
		name, doc = "restoreAddRow", "adds ((sums - less) scales) factor to dst."
	}
	f.fn(name+v.name, "dst []float32, sums, less []int32, scales []float32, factor float32", 100, doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ sums_base+24(FP), SI\nMOVQ less_base+48(FP), DX")
	f.p("MOVQ scales_base+72(FP), BX\nVBROADCASTSS factor+96(FP), %s", v.reg(14))
	f.overRow(v, 4, []stream{{"DI", 4}, {"SI", 4}, {"DX", 4}, {"BX", 4}}, func(n int, masked bool) {
		for i := range n {
			r, t := v.reg(i), v.reg(4+i)
			f.load(v, i*v.width, "SI", i, masked)
			f.load(v, i*v.width, "DX", 4+i, masked)
			f.p("VPSUBD %[1]s, %[2]s, %[2]s\nVCVTDQ2PS %[2]s, %[2]s", t, r)
			f.load(v, i*v.width, "BX", 4+i, masked)
			f.p("VMULPS %[1]s, %[2]s, %[2]s\nVMULPS %[3]s, %[2]s, %[2]s", t, r, v.reg(14))
			if add {
				f.load(v, i*v.width, "DI", 4+i, masked)
				f.p("VADDPS %s, %s, %s", r, t, r)
			}
			f.save(v, i, i*v.width, "DI", masked)
		}
	})
	f.ret()
}
