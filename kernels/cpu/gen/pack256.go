package main

import "fmt"

// load256 converts 8 elements of a stored type to fp32.
type load256 struct {
	name  string
	doc   string
	op    string
	shift bool // bf16: into the upper half
	bytes int  // source bytes of 8 elements
}

var loads256 = []load256{
	{name: "F32", doc: "fp32", op: "VMOVUPS", bytes: 32},
	{name: "BF16", doc: "bf16 widened to fp32", op: "VPMOVZXWD", shift: true, bytes: 16},
	{name: "F16", doc: "fp16 widened to fp32", op: "VCVTPH2PS", bytes: 16},
}

// pack256 packs operands into panels for the AVX2 micro-kernels. It packs whole blocks of 8; Go code packs the rest.
func pack256() *file {
	f := newFile("pack_avx2")
	for _, l := range loads256 {
		f.packNK256(l)
	}
	for _, l := range loads256 {
		f.packKN256(l)
	}
	return f
}

// packNK256 transposes blocks of 8 terms of 8 columns.
func (f *file) packNK256(l load256) {
	f.fn("packNK256"+l.name, "dst, src unsafe.Pointer, stride, columns, blocks, step int", 48, fmt.Sprintf(
		"packs blocks of 8 terms of up to 8 columns, stride bytes apart, as %s.\n"+
			"// The 8 fp32 of a term are contiguous in dst, step bytes after those of the term before. Missing columns repeat the last.", l.doc))
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ blocks+32(FP), CX\nMOVQ step+40(FP), R10\nXORL R13, R13")
	f.p("TESTQ CX, CX\nJLE done")
	f.at("loop")
	f.p("MOVQ SI, AX\nMOVQ stride+16(FP), R8\nMOVQ columns+24(FP), R9")
	for i := range 8 {
		f.load256(l, i)
		if i < 7 {
			f.p("DECQ R9\nCMOVQEQ R13, R8\nADDQ R8, AX")
		}
	}
	f.transpose256()
	for i := range 8 {
		f.p("VMOVUPS Y%d, (DI)\nADDQ R10, DI", 8+i)
	}
	f.p("ADDQ $%d, SI\nDECQ CX\nJNZ loop", l.bytes)
	f.at("done")
	f.ret()
}

func (f *file) load256(l load256, reg int) {
	f.p("%s (AX), Y%d", l.op, reg)
	if l.shift {
		f.p("VPSLLD $16, Y%d, Y%d", reg, reg)
	}
}

// transpose256 transposes 8 x 8 dwords from Y0 to Y7 into Y8 to Y15: pairs, fours, then lanes.
func (f *file) transpose256() {
	for i := range 4 {
		f.p("VUNPCKLPS Y%d, Y%d, Y%d", 2*i+1, 2*i, 8+2*i)
		f.p("VUNPCKHPS Y%d, Y%d, Y%d", 2*i+1, 2*i, 9+2*i)
	}
	for i := range 2 {
		t := 8 + 4*i
		f.p("VUNPCKLPD Y%d, Y%d, Y%d", t+2, t, 4*i)
		f.p("VUNPCKHPD Y%d, Y%d, Y%d", t+2, t, 4*i+1)
		f.p("VUNPCKLPD Y%d, Y%d, Y%d", t+3, t+1, 4*i+2)
		f.p("VUNPCKHPD Y%d, Y%d, Y%d", t+3, t+1, 4*i+3)
	}
	for i := range 4 {
		f.p("VPERM2F128 $0x20, Y%d, Y%d, Y%d", 4+i, i, 8+i)
		f.p("VPERM2F128 $0x31, Y%d, Y%d, Y%d", 4+i, i, 12+i)
	}
}

// packKN256 copies 8 columns of each term.
func (f *file) packKN256(l load256) {
	f.fn("packKN256"+l.name, "dst, src unsafe.Pointer, stride, k, step int", 40, fmt.Sprintf(
		"packs 8 columns of k terms, stride bytes apart, as %s.", l.doc))
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), AX\nMOVQ stride+16(FP), R8\nMOVQ k+24(FP), CX\nMOVQ step+32(FP), R10")
	f.p("TESTQ CX, CX\nJLE done")
	f.at("loop")
	f.load256(l, 0)
	f.p("VMOVUPS Y0, (DI)\nADDQ R8, AX\nADDQ R10, DI\nDECQ CX\nJNZ loop")
	f.at("done")
	f.ret()
}
