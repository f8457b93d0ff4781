package main

import "fmt"

// peak measures the peak of the machine for benchmarks: independent multiply-adds without memory access, and reads without
// arithmetic.
func peak() *file {
	f := newFile("peak")
	f.peakLoop("peakFMA512", "VPXORD", z, 24, fma512)
	f.peakLoop("peakBF16", "VPXORD", z, 24, vdpbf16ps)
	f.peakLoop("peakInt8", "VPXORD", z, 24, dotBytes512)
	f.peakLoop("peakFMA256", "VXORPS", y, 12, fma256)
	f.fn("peakRead", "p unsafe.Pointer, n int", 16, "reads n bytes, a multiple of 512.")
	f.p("MOVQ p+0(FP), SI\nMOVQ n+8(FP), CX")
	f.at("loop")
	for i := range 16 {
		f.p("VMOVUPS %d(SI), Y%d", 32*i, i)
	}
	f.p("ADDQ $512, SI\nSUBQ $512, CX\nJG loop")
	f.ret()
	return f
}

// peakLoop writes name(n int): n times count multiply-adds into different registers.
func (f *file) peakLoop(
	name, clear string, reg func(int) string, count int, multiply func(b, a, acc int) string,
) {
	f.fn(name, "n int", 8, fmt.Sprintf("runs %d independent vector operations n times.", count))
	f.p("MOVQ n+0(FP), CX")
	for i := range count + 2 {
		f.p("%s %s, %s, %s", clear, reg(i), reg(i), reg(i))
	}
	f.at("loop")
	for i := range count {
		f.p("%s", multiply(0, 1, 2+i))
	}
	f.p("DECQ CX\nJNZ loop")
	f.ret()
}
