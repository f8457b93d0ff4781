package cpu

import "unsafe"

// nativePeak is a loop of assembly that does only arithmetic, flop operations per iteration.
type nativePeak struct {
	kind string
	flop float64
	run  func(n int)
}

// nativePeaks returns the loops that bound a tier's products.
func nativePeaks(t *tier) []nativePeak {
	switch t.String() {
	case "amxbf16":
		config := &tileConfigs()[tileTerms][2*tileRows]
		return []nativePeak{{"f32", 24 * 32, peakFMA512}, {"bf16", 4 * 2 * 16 * 16 * 32, func(n int) { peakAMX(config, n) }}}
	case "avx512bf16":
		return []nativePeak{{"f32", 24 * 32, peakFMA512}, {"bf16", 24 * 64, peakBF16}, {"int8", 24 * 128, peakInt8}}
	case "avx512", "avx512bf16:avx512":
		return []nativePeak{{"f32", 24 * 32, peakFMA512}}
	case "avx2", "avx512:avx2", "avx512bf16:avx2":
		return []nativePeak{{"f32", 12 * 16, peakFMA256}}
	}
	return nil
}

// readMemory reads all bytes of memory.
func readMemory(memory []byte) { peakRead(unsafe.Pointer(&memory[0]), len(memory)) }
