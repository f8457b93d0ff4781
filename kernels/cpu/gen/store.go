package main

import "fmt"

// storeRows writes the routines that store finished fp32 sums as rows of fp32 or bf16, with or without a bias, for AVX-512.
func (f *file) storeRows(bias, bf16 bool) {
	name, doc, size := "store", "stores", 4
	streams := []stream{{"R12", 4}, {"R13", 4}}
	if bias {
		name, doc = "biasStore", "adds the row bias to each row and stores"
		streams = append(streams, stream{"R11", 4})
	}
	kind := "F32"
	if bf16 {
		kind, size = "BF16", 2
		streams[0].size = 2
	}
	if f.soft != 0 {
		kind += "Soft"
	}
	f.fn(name+"512"+kind, "dst, src, bias unsafe.Pointer, dstStride, srcStride, rows, columns int", 56,
		fmt.Sprintf("%s rows of fp32 as %s; strides in bytes.", doc, map[int]string{4: "fp32", 2: "bf16"}[size]))
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ dstStride+24(FP), R8\nMOVQ srcStride+32(FP), R9")
	f.p("MOVQ rows+40(FP), R10")
	f.at("row")
	f.p("MOVQ DI, R12\nMOVQ SI, R13\nMOVQ columns+48(FP), CX")
	if bias {
		f.p("MOVQ bias+16(FP), R11")
	}
	f.overRow(isa512, 4, streams, func(n int, masked bool) {
		for i := range n {
			f.load(isa512, i*64, "R13", i, masked)
		}
		if bias {
			for i := range n {
				f.load(isa512, i*64, "R11", 4+i, masked)
				f.p("VADDPS Z%d, Z%d, Z%d", 4+i, i, i)
			}
		}
		for i := range n {
			switch {
			case !bf16:
				f.save(isa512, i, i*64, "R12", masked)
			case masked:
				f.toBF16(i, i)
				f.p("VMOVDQU16 Y%d, K1, (R12)", i)
			default:
				f.toBF16(i, i)
				f.p("VMOVDQU Y%d, %d(R12)", i, i*32)
			}
		}
	})
	f.p("ADDQ R8, DI\nADDQ R9, SI\nDECQ R10\nJNZ row")
	f.ret()
}
