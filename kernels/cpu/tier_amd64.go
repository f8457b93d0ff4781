package cpu

import (
	"sync"

	"golang.org/x/sys/cpu"

	"latentbeam/kernels"
)

// nativeTiers returns the tiers of assembly that this processor runs, best first.
var nativeTiers = sync.OnceValue(func() []*tier {
	x := &cpu.X86
	var tiers []*tier
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		f32 := newKernelSet(kernels512F32[:])
		f32.ahead, f32.halves = gemm512f32ahead, halves512F32[:]
		avx512 := tier{name: "avx512", apart: true, lanes: 16, align: 16, usual: 64, widest: 80, pack: packers512,
			row: rows512, kernels: [dots]*kernelSet{f32}, attend: attention512}
		avx512.store.plain[kernels.F32], avx512.store.biased[kernels.F32] = store512F32, biasStore512F32
		if x.HasAVX512BF16 {
			pairs := avx512
			pairs.name, pairs.kernels[dotBF16] = "avx512bf16", newKernelSet(kernels512BF16[:])
			pairs.row = rows512BF16
			pairs.store.plain[kernels.BF16], pairs.store.biased[kernels.BF16] = store512BF16, biasStore512BF16
			pairs.store.biasRound, pairs.store.mulRound = biasRoundRowsBF16, mulRoundRowsBF16
			pairs.store.add = addRowsBF16
			pairs.kernels[dotBF16].ahead = gemm512bf16ahead
			pairs.kernels[dotBF16].halves = halves512BF16[:]
			if hasTiles() {
				tiles, set := pairs, *pairs.kernels[dotBF16]
				set.tiles = multiplyTiles
				tiles.name, tiles.kernels[dotBF16] = "amxbf16", &set
				tiers = append(tiers, &tiles)
			}
			tiers = append(tiers, &pairs)
		}
		tiers = append(tiers, &avx512)
	}
	// F16C came before AVX2 on every processor (x86-64-v3), and the package has no flag for it.
	if x.HasAVX2 && x.HasFMA {
		f32 := newKernelSet(kernels256[:])
		f32.ahead = gemm256ahead
		tiers = append(tiers, &tier{name: "avx2", apart: true, lanes: 8, align: 16, usual: 16, widest: 16,
			pack: packers256, row: rows256, attend: attention256,
			kernels: [dots]*kernelSet{f32}})
	}
	return tiers
})
