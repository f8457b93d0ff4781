package main

import "fmt"

// Conversions between fp32 and the 16-bit types give the bits of kernels.ToBF16, FromBF16, ToF16 and FromF16. The AVX2 routines
// convert whole vectors only, because AVX2 cannot mask 16-bit lanes; Go code converts the tail.

// loadRounding loads the constants of bf16 rounding into registers 12 to 14.
func (f *file) loadRounding(v isa) {
	f.bits(v, 1, 12)
	f.bits(v, 0x7fff, 13)
	f.bits(v, 0x400000, 14) // makes a NaN quiet
}

// roundBF16 rounds register x to bf16 in the lower half of each lane of register t. It overwrites x and s.
// It rounds to nearest, ties to even, by integer arithmetic, because the instruction of AVX512_BF16
// turns subnormal numbers into zero.
func (f *file) roundBF16(v isa, x, t, s int) {
	xr, tr, sr := v.reg(x), v.reg(t), v.reg(s)
	f.p("VPSRLD $16, %s, %s", xr, tr)
	if v.wide() {
		f.p("VPANDD Z12, %s, %s", tr, tr)
	} else {
		f.p("VPAND Y12, %s, %s", tr, tr)
	}
	f.p("VPADDD %s, %s, %s\nVPADDD %s, %s, %s", v.reg(13), tr, tr, xr, tr, tr)
	if v.wide() {
		f.p("VCMPPS $3, %s, %s, K3\nVPORD Z14, %s, K3, %s", xr, xr, xr, tr)
	} else {
		f.p("VCMPPS $3, %s, %s, %s\nVORPS Y14, %s, %s\nVBLENDVPS %s, %s, %s, %s", xr, xr, sr, xr, xr, sr, xr, tr, tr)
	}
	f.p("VPSRLD $16, %s, %s", tr, tr)
}

func (f *file) conversions(v isa) {
	if v.wide() {
		f.conversion512("widenBF16", "widens bf16.", 2, 4, false, func(i int, mask string) {
			f.p("VPMOVZXWD%s, Z%d\nVPSLLD $16, Z%d, Z%d", mask, i, i, i)
		})
		f.conversion512("widenF16", "widens fp16.", 2, 4, false, func(i int, mask string) {
			f.p("VCVTPH2PS%s, Z%d", mask, i)
		})
		f.conversion512("narrowBF16", "rounds to bf16.", 4, 2, true, func(i int, mask string) {
			f.roundBF16(v, i, 4+i, 8+i)
			f.p("VPMOVDW Z%d, %s", 4+i, mask)
		})
		f.conversion512("narrowF16", "rounds to fp16.", 4, 2, true, func(i int, mask string) {
			f.p("VCVTPS2PH $0, Z%d, %s", i, mask)
		})
		return
	}
	f.conversion256("widenBF16", "widens bf16.", 2, 4, func() {
		f.p("VPMOVZXWD (SI), Y0\nVPSLLD $16, Y0, Y0\nVMOVUPS Y0, (DI)")
	})
	f.conversion256("widenF16", "widens fp16.", 2, 4, func() {
		f.p("VCVTPH2PS (SI), Y0\nVMOVUPS Y0, (DI)")
	})
	f.conversion256("narrowBF16", "rounds to bf16.", 4, 2, func() {
		f.p("VMOVUPS (SI), Y0")
		f.roundBF16(v, 0, 1, 2)
		f.p("VEXTRACTI128 $1, Y1, X2\nVPACKUSDW X2, X1, X1\nVMOVUPS X1, (DI)")
	})
	f.conversion256("narrowF16", "rounds to fp16.", 4, 2, func() {
		f.p("VMOVUPS (SI), Y0\nVCVTPS2PH $0, Y0, (DI)")
	})
}

// conversionParams are the parameters of a conversion from elements of from bytes to elements of to bytes.
func (f *file) conversionParams(name, doc string, from, to int) {
	types := map[int]string{2: "[]uint16", 4: "[]float32"}
	f.fn(name, "dst "+types[to]+", src "+types[from], 48, doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
}

// conversion512 writes a routine that converts elements of from bytes to elements of to bytes. convert writes the code that
// loads a memory operand into register i, or stores register i to it.
func (f *file) conversion512(name, doc string, from, to int, narrow bool, convert func(i int, memory string)) {
	v := isa512
	f.conversionParams(name+v.name, doc, from, to)
	if name == "narrowBF16" {
		f.loadRounding(v)
	}
	f.overRow(v, 4, []stream{{"DI", to}, {"SI", from}}, func(n int, masked bool) {
		for i := range n {
			switch {
			case narrow && masked:
				f.load(v, i*64, "SI", i, true)
				convert(i, fmt.Sprintf("K1, %d(DI)", i*32))
			case narrow:
				f.load(v, i*64, "SI", i, false)
				convert(i, fmt.Sprintf("%d(DI)", i*32))
			case masked:
				convert(i, fmt.Sprintf(".Z %d(SI), K1", i*32))
				f.save(v, i, i*64, "DI", true)
			default:
				convert(i, fmt.Sprintf(" %d(SI)", i*32))
				f.save(v, i, i*64, "DI", false)
			}
		}
	})
	f.ret()
}

// conversion256 writes a routine that converts whole vectors only: n rounded down.
func (f *file) conversion256(name, doc string, from, to int, convert func()) {
	f.conversionParams(name+"256", doc+" The length is rounded down to a multiple of 8.", from, to)
	if name == "narrowBF16" {
		f.loadRounding(isa256)
	}
	f.p("SHRQ $3, CX\nJZ done")
	f.at("loop")
	convert()
	f.p("ADDQ $%d, SI\nADDQ $%d, DI\nDECQ CX\nJNZ loop", 8*from, 8*to)
	f.at("done")
	f.ret()
}
