package main

// scaleRows multiplies each row of fp32 by its own factor and stores it as fp32 or rounded to bf16.
func scaleRows(f *file, v isa, name, doc string, bf16 bool) {
	f.fn(name, "dst, src unsafe.Pointer, dstStride, srcStride int, factors unsafe.Pointer, rows, columns int", 56, doc)
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ dstStride+16(FP), R8\nMOVQ srcStride+24(FP), R9")
	f.p("MOVQ factors+32(FP), DX\nMOVQ rows+40(FP), R10")
	size := 4
	if bf16 {
		size = 2
	}
	f.at("row")
	f.p("VBROADCASTSS (DX), %s\nMOVQ DI, R12\nMOVQ SI, R13\nMOVQ columns+48(FP), CX", v.reg(12))
	f.overRow(v, 4, []stream{{"R12", size}, {"R13", 4}}, func(n int, masked bool) {
		for i := range n {
			f.load(v, i*v.width, "R13", i, masked)
			f.p("VMULPS %s, %s, %s", v.reg(12), v.reg(i), v.reg(i))
		}
		for i := range n {
			switch {
			case !bf16:
				f.save(v, i, i*v.width, "R12", masked)
			case masked:
				f.toBF16(i, i)
				f.p("VMOVDQU16 Y%d, K1, (R12)", i)
			default:
				f.toBF16(i, i)
				f.p("VMOVDQU Y%d, %d(R12)", i, i*32)
			}
		}
	})
	f.p("ADDQ $4, DX\nADDQ R8, DI\nADDQ R9, SI\nDECQ R10\nJNZ row")
	f.ret()
}
