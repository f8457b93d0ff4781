package main

import (
	"fmt"
	"strings"
)

// Routines for bf16 rows that give the results of separate modules of PyTorch: the result of every step is rounded to bf16. Between
// steps the instructions of AVX512_BF16 round, which treat subnormal numbers as zero. Stored results are rounded as in all other
// routines.

// stepBF16 rounds register i to bf16, as fp32.
func (f *file) stepBF16(i int) {
	if f.soft != 0 {
		f.softBF16(i)
		f.p("VPANDD.BCST %s, Z%d, Z%d", softAt(softUpper), f.soft, i)
		return
	}
	f.p("%s\nVPMOVZXWD Y%d, Z%d\nVPSLLD $16, Z%d, Z%d", vcvtneps2bf16(i, i), i, i, i, i)
}

// saveBF16 stores register i at off(ptr) as bf16. It overwrites registers t and s.
func (f *file) saveBF16(ptr string, i, t, s, off int, masked bool) {
	f.roundBF16(isa512, i, t, s)
	if masked {
		f.p("VPMOVDW Z%d, K1, %d(%s)", t, off, ptr)
	} else {
		f.p("VPMOVDW Z%d, %d(%s)", t, off, ptr)
	}
}

// toBF16 rounds the 16 fp32 of Z[src] to the bf16 of Y[dst].
func (f *file) toBF16(src, dst int) {
	if f.soft == 0 {
		f.p("%s", vcvtneps2bf16(src, dst))
		return
	}
	f.softBF16(src)
	f.p("VPSRLD $16, Z%d, Z%d\nVPMOVDW Z%d, Y%d", f.soft, f.soft, f.soft, dst)
}

// softConstants are the constants of softBF16. Each file has them in a table.
var softConstants = []uint32{softExponent: 0x7f800000, softOne: 1, softTie: 0x7fff, softQuiet: 0x400000,
	softSign: 1 << 31, softUpper: 0xffff0000}

const (
	softExponent = iota
	softOne
	softTie
	softQuiet
	softSign
	softUpper
)

func softAt(i int) string { return fmt.Sprintf("softbf16<>+%d(SB)", 4*i) }

// softTable writes the constants of softBF16.
func (f *file) softTable() {
	for i, x := range softConstants {
		f.data("softbf16<>", 4*i, x)
	}
	f.global("softbf16<>", 4*len(softConstants))
}

// softBF16 rounds register i as VCVTNEPS2BF16 does: to nearest, ties to even, subnormal numbers to zero. The result is in the upper
// halves of the lanes of register f.soft. It overwrites K6 and K7.
func (f *file) softBF16(i int) {
	t := f.soft
	f.p("VPTESTNMD.BCST %s, Z%d, K6\nVCMPPS $3, Z%d, Z%d, K7", softAt(softExponent), i, i, i)
	f.p("VPSRLD $16, Z%d, Z%d\nVPANDD.BCST %s, Z%d, Z%d", i, t, softAt(softOne), t, t)
	f.p("VPADDD.BCST %s, Z%d, Z%d\nVPADDD Z%d, Z%d, Z%d", softAt(softTie), t, t, i, t, t)
	f.p("VPORD.BCST %s, Z%d, K7, Z%d\nVPANDD.BCST %s, Z%d, K6, Z%d", softAt(softQuiet), i, t, softAt(softSign), i, t)
}

// rowsBF16 is the family for AVX-512 with BF16.
func rowsBF16() *file {
	f := newFile("rows_avx512bf16")
	f.allRowsBF16("")
	return f
}

// allRowsBF16 writes the family; suffix is added to all names.
func (f *file) allRowsBF16(suffix string) {
	v := isa512
	f.fn("roundRowBF16"+suffix, "row []float32", 24, "rounds row to bf16.")
	f.p("MOVQ row_base+0(FP), DI\nMOVQ row_len+8(FP), CX")
	f.overRow(v, 4, []stream{{"DI", 4}}, func(n int, masked bool) {
		for i := range n {
			f.load(v, i*64, "DI", i, masked)
			f.stepBF16(i)
			f.save(v, i, i*64, "DI", masked)
		}
	})
	f.ret()
	if suffix == "" {
		f.standardizeBF16("standardRowBF16", "computes s = (src - mean) factor.")
	}
	f.standardizeBF16("weighRowBF16"+suffix, "computes r(s) a, s = (src - mean) factor; r rounds to bf16.", "a")
	f.standardizeBF16("modulateRowBF16"+suffix, "computes r(r(s) a) + b, s = (src - mean) factor; r rounds to bf16.", "a", "b")
	f.rotateBF16("rotateRowBF16" + suffix)
	f.blockBF16("biasRoundRowsBF16"+suffix, "adds rows of fp32 to sums and rounds them to bf16.", "VADDPS", false, true)
	f.blockBF16("mulRoundRowsBF16"+suffix, "multiplies sums by rows of bf16 and rounds them to bf16.", "VMULPS", true, true)
	if suffix != "" { // the other routines do not round between steps
		return
	}
	f.blockBF16("addRowsBF16", "adds rows of bf16 to sums.", "VADDPS", true, false)
	f.binaryBF16("addRowBF16", "VADDPS", "adds a and b.")
	f.binaryBF16("mulRowBF16", "VMULPS", "multiplies a by b.")
}

// binaryBF16 is binary for three bf16 operands.
func (f *file) binaryBF16(name, op, doc string) {
	f.fn(name, "dst, a, b []uint16", 72, doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ a_base+24(FP), SI\nMOVQ b_base+48(FP), DX")
	f.loadRounding(isa512)
	f.overRow(isa512, 4, []stream{{"DI", 2}, {"SI", 2}, {"DX", 2}}, func(n int, masked bool) {
		for i := range n {
			f.loadBF16("SI", i, i*32, masked)
			f.loadBF16("DX", 4+i, i*32, masked)
			f.p("%s Z%d, Z%d, Z%d", op, 4+i, i, i)
		}
		for i := range n {
			f.saveBF16("DI", i, 4+i, 8+i, i*32, masked)
		}
	})
	f.ret()
}

// blockBF16 combines columns of rows of sums with rows of bf16 or fp32.
func (f *file) blockBF16(name, doc, op string, half, round bool) {
	f.fn(name, "sums, other unsafe.Pointer, stride, otherStride, rows, columns int", 48, doc)
	f.p("MOVQ sums+0(FP), DI\nMOVQ other+8(FP), SI\nMOVQ stride+16(FP), R8\nMOVQ otherStride+24(FP), R9")
	f.p("MOVQ rows+32(FP), R10\nMOVQ columns+40(FP), R11\nMOVQ R11, CX\nANDQ $15, CX")
	f.p("MOVL $1, AX\nSHLL CX, AX\nDECL AX\nKMOVW AX, K1\nSHRQ $4, R11")
	combine := func(masked bool) {
		f.load(isa512, 0, "AX", 0, masked)
		if half {
			f.loadBF16("BX", 1, 0, masked)
		} else {
			f.load(isa512, 0, "BX", 1, masked)
		}
		f.p("%s Z1, Z0, Z0", op)
		if round {
			f.stepBF16(0)
		}
		f.save(isa512, 0, 0, "AX", masked)
	}
	f.at("row")
	f.p("MOVQ DI, AX\nMOVQ SI, BX\nMOVQ R11, CX\nTESTQ CX, CX\nJZ last")
	f.at("vector")
	combine(false)
	f.p("ADDQ $64, AX\nADDQ $%d, BX\nDECQ CX\nJNZ vector", map[bool]int{true: 32, false: 64}[half])
	f.at("last")
	f.p("KTESTW K1, K1\nJZ next")
	combine(true)
	f.at("next")
	f.p("ADDQ R8, DI\nADDQ R9, SI\nDECQ R10\nJNZ row")
	f.ret()
}

// loadBF16 loads bf16 at off(ptr) into register i as fp32.
func (f *file) loadBF16(ptr string, i, off int, masked bool) {
	if masked {
		f.p("VPMOVZXWD.Z %d(%s), K1, Z%d", off, ptr, i)
	} else {
		f.p("VPMOVZXWD %d(%s), Z%d", off, ptr, i)
	}
	f.p("VPSLLD $16, Z%d, Z%d", i, i)
}

func (f *file) standardizeBF16(name, doc string, operands ...string) {
	v := isa512
	weigh, shift := len(operands) > 0, len(operands) > 1
	n := 48 + 24*len(operands)
	params := strings.Join(append([]string{"dst []uint16, src"}, operands...), ", ")
	f.fn(name, params+" []float32, mean, factor float32", n+8, doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
	streams := []stream{{"DI", 2}, {"SI", 4}}
	for i, operand := range operands {
		ptr := []string{"DX", "BX"}[i]
		f.p("MOVQ %s_base+%d(FP), %s", operand, 48+24*i, ptr)
		streams = append(streams, stream{ptr, 4})
	}
	f.p("VBROADCASTSS mean+%d(FP), Z15\nVBROADCASTSS factor+%d(FP), Z16", n, n+4)
	f.loadRounding(v)
	f.overRow(v, 4, streams, func(n int, masked bool) {
		for i := range n {
			f.load(v, i*64, "SI", i, masked)
			f.p("VSUBPS Z15, Z%d, Z%d\nVMULPS Z16, Z%d, Z%d", i, i, i, i)
			if weigh {
				f.stepBF16(i)
				f.load(v, i*64, "DX", 4+i, masked)
				f.p("VMULPS Z%d, Z%d, Z%d", 4+i, i, i)
			}
			if shift {
				f.stepBF16(i)
				f.load(v, i*64, "BX", 4+i, masked)
				f.p("VADDPS Z%d, Z%d, Z%d", 4+i, i, i)
			}
		}
		for i := range n {
			f.saveBF16("DI", i, 4+i, 8+i, i*32, masked)
		}
	})
	f.ret()
}

// rotateBF16 is rotate with each product rounded.
func (f *file) rotateBF16(name string) {
	f.fn(name, "dst []uint16, src, cos, sin []float32", 96,
		"rotates the pairs of src, whose length is even, rounding each product to bf16.")
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
	f.p("MOVQ cos_base+48(FP), DX\nMOVQ sin_base+72(FP), BX")
	f.loadRounding(isa512)
	f.constant(isa512, 1, 15)
	streams := []stream{{"DI", 2}, {"SI", 4}, {"DX", 2}, {"BX", 2}}
	f.overRow(isa512, 1, streams, func(_ int, masked bool) {
		f.load(isa512, 0, "SI", 0, masked)
		f.rotation(isa512, partOf(masked))
		f.addRotatedBF16()
		f.saveBF16("DI", 0, 1, 2, 0, masked)
	})
	f.ret()
}

// addRotatedBF16 rounds the products of rotation and adds them. Register 15 contains 1.
func (f *file) addRotatedBF16() {
	f.p("VMULPS Z1, Z0, Z0")
	f.stepBF16(0)
	f.stepBF16(3)
	f.p("VFMADDSUB213PS Z3, Z15, Z0") // even lanes minus, odd plus
}
