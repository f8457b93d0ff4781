package cpu

// The sets of instructions for products of 8-bit numbers. All give the same bits.
var (
	int8VNNI512 = &int8Set{
		name: "AVX512_VNNI", lanes: 16, align: 16, maxWidth: 64, numbersPerTerm: 4, offset: 128,
		kernels: newKernelSet(kernels512Int8[:]),
		largest: largestRow512, quantize: bytesRow512, restore: restoreRow512, restoreAdd: restoreAddRow512,
	}
	int8VNNI256 = &int8Set{
		name: "AVX-VNNI", lanes: 8, align: 16, maxWidth: 16, numbersPerTerm: 4, offset: 128,
		kernels: newKernelSet(kernels256Int8[:]),
		largest: largestRow256, quantize: bytesRow256, restore: restoreRow256, restoreAdd: restoreAddRow256,
	}
	int8AVX2 = &int8Set{
		name: "AVX2", lanes: 8, align: 16, maxWidth: 16, numbersPerTerm: 2,
		kernels: newKernelSet(kernels256Words[:]),
		largest: largestRow256, quantize: wordsRow256, restore: restoreRow256, restoreAdd: restoreAddRow256,
	}
)

// int8Sets returns the sets of a processor, best first.
func int8Sets(has features) (sets []*int8Set) {
	if has.avx512 && has.vnni {
		sets = append(sets, int8VNNI512)
	}
	if has.avx2 && has.avx {
		sets = append(sets, int8VNNI256)
	}
	if has.avx2 {
		sets = append(sets, int8AVX2)
	}
	return append(sets, int8Go)
}

// int8Of256 returns the best set without AVX-512.
func int8Of256(has features) *int8Set {
	has.avx512 = false
	return int8Sets(has)[0]
}
