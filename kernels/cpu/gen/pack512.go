package main

import "fmt"

// load512 converts 16 elements, or 16 pairs, of a stored type to dwords of a packed panel.
type load512 struct {
	name  string
	doc   string
	op    string // load with optional mask
	shift bool   // bf16 to fp32: into the upper half
	bytes int    // source bytes of 16 dwords
	lanes int    // elements of 16 dwords: 32 for pairs
	kmov  string // mask of lanes bits
}

var loads512 = []load512{
	{name: "F32", doc: "fp32", op: "VMOVUPS", bytes: 64, lanes: 16, kmov: "KMOVW"},
	{name: "Pairs", doc: "pairs of bf16", op: "VMOVDQU16", bytes: 64, lanes: 32, kmov: "KMOVD"},
	{name: "BF16", doc: "bf16 widened to fp32", op: "VPMOVZXWD", shift: true, bytes: 32, lanes: 16, kmov: "KMOVW"},
	{name: "F16", doc: "fp16 widened to fp32", op: "VCVTPH2PS", bytes: 32, lanes: 16, kmov: "KMOVW"},
}

// pack512 packs operands into panels for the AVX-512 micro-kernels, and stores their results.
func pack512() *file {
	f := newFile("pack_avx512")
	for _, l := range loads512 {
		f.packNK512(l)
	}
	for _, l := range loads512 {
		f.packKN512(l)
	}
	for _, bias := range []bool{false, true} {
		f.storeRows(bias, false)
		f.storeRows(bias, true)
	}
	return f
}

// packNK512 transposes, because the terms of a column are contiguous in the source.
func (f *file) packNK512(l load512) {
	f.fn("packNK512"+l.name, "dst, src unsafe.Pointer, stride, columns, k, step int", 48, fmt.Sprintf(
		"packs k terms of up to 16 columns, stride bytes apart, as %s.\n"+
			"// The dwords of a term are contiguous in dst, step bytes after those of the term before. Missing columns repeat the last.", l.doc))
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ k+32(FP), CX\nMOVQ step+40(FP), R10\nXORL R13, R13")
	f.p("SUBQ $%d, CX\nJL rest", l.lanes)
	f.at("loop")
	f.rows512(l, "")
	f.transpose512()
	for i := range 16 {
		f.p("VMOVUPS Z%d, (DI)\nADDQ R10, DI", i)
	}
	f.p("ADDQ $%d, SI\nSUBQ $%d, CX\nJGE loop", l.bytes, l.lanes)
	f.at("rest")
	f.p("ADDQ $%d, CX\nJLE done", l.lanes)
	f.p("MOVL $1, AX\nSHLQ CX, AX\nDECQ AX\n%s AX, K1", l.kmov)
	f.rows512(l, "K1")
	f.transpose512()
	if l.lanes == 32 { // a single last term becomes a pair with a zero
		f.p("INCQ CX\nSHRQ $1, CX")
	}
	for i := range 16 {
		f.p("VMOVUPS Z%d, (DI)", i)
		if i < 15 {
			f.p("ADDQ R10, DI\nDECQ CX\nJZ done")
		}
	}
	f.at("done")
	f.ret()
}

// rows512 loads a block of 16 columns into Z0 to Z15. The pointer is not moved beyond the last column.
func (f *file) rows512(l load512, mask string) {
	f.p("MOVQ SI, AX\nMOVQ stride+16(FP), R8\nMOVQ columns+24(FP), R9")
	for i := range 16 {
		f.load512(l, "(AX)", mask, i)
		if i < 15 {
			f.p("DECQ R9\nCMOVQEQ R13, R8\nADDQ R8, AX")
		}
	}
}

func (f *file) load512(l load512, from, mask string, reg int) {
	if mask == "" {
		f.p("%s %s, Z%d", l.op, from, reg)
	} else {
		f.p("%s.Z %s, %s, Z%d", l.op, from, mask, reg)
	}
	if l.shift {
		f.p("VPSLLD $16, Z%d, Z%d", reg, reg)
	}
}

// transpose512 transposes 16 x 16 dwords in Z0 to Z15 through Z16 to Z31: pairs, fours, then lanes.
func (f *file) transpose512() {
	for i := range 8 {
		f.p("VUNPCKLPS Z%d, Z%d, Z%d", 2*i+1, 2*i, 16+2*i)
		f.p("VUNPCKHPS Z%d, Z%d, Z%d", 2*i+1, 2*i, 16+2*i+1)
	}
	for i := range 4 {
		t := 16 + 4*i
		f.p("VUNPCKLPD Z%d, Z%d, Z%d", t+2, t, 4*i)
		f.p("VUNPCKHPD Z%d, Z%d, Z%d", t+2, t, 4*i+1)
		f.p("VUNPCKLPD Z%d, Z%d, Z%d", t+3, t+1, 4*i+2)
		f.p("VUNPCKHPD Z%d, Z%d, Z%d", t+3, t+1, 4*i+3)
	}
	for i := range 4 {
		f.p("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", i+4, i, 16+i)
		f.p("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", i+4, i, 16+i+4)
		f.p("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", i+12, i+8, 16+i+8)
		f.p("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", i+12, i+8, 16+i+12)
	}
	for i := range 8 {
		f.p("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 16+i+8, 16+i, i)
		f.p("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 16+i+8, 16+i, i+8)
	}
}

// packKN512 copies, because the columns of a term are contiguous in the source.
func (f *file) packKN512(l load512) {
	f.fn("packKN512"+l.name, "dst, src unsafe.Pointer, stride, columns, k, step int", 48, fmt.Sprintf(
		"packs up to 16 columns of k terms, stride bytes apart, as %s.\n"+
			"// Missing columns are zero.", l.doc))
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ stride+16(FP), R8\nMOVQ columns+24(FP), CX")
	f.p("MOVQ step+40(FP), R10\nMOVL $1, AX\nSHLQ CX, AX\nDECQ AX\nKMOVW AX, K1\nMOVQ k+32(FP), CX")
	if l.lanes == 32 {
		f.packPairs()
		return
	}
	f.p("TESTQ CX, CX\nJLE done")
	f.at("loop")
	f.load512(l, "(SI)", "K1", 0)
	f.p("VMOVUPS Z0, (DI)\nADDQ R8, SI\nADDQ R10, DI\nDECQ CX\nJNZ loop")
	f.at("done")
	f.ret()
}

// packPairs interleaves two terms into pairs.
func (f *file) packPairs() {
	f.p("SUBQ $2, CX\nJL rest")
	f.at("loop")
	f.p("VPMOVZXWD.Z (SI), K1, Z0\nVPMOVZXWD.Z (SI)(R8*1), K1, Z1\nVPSLLD $16, Z1, Z1\nVPORD Z1, Z0, Z0")
	f.p("VMOVUPS Z0, (DI)\nLEAQ (SI)(R8*2), SI\nADDQ R10, DI\nSUBQ $2, CX\nJGE loop")
	f.at("rest")
	f.p("ADDQ $2, CX\nJLE done")
	f.p("VPMOVZXWD.Z (SI), K1, Z0\nVMOVUPS Z0, (DI)")
	f.at("done")
	f.ret()
}
