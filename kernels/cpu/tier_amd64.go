package cpu

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/cpu"

	"latentbeam/kernels"
)

// features are the instruction sets that tiers require.
type features struct {
	avx512 bool // F, BW, DQ, VL
	bf16   bool // AVX512_BF16
	amx    bool
	vnni   bool // AVX512_VNNI
	avx    bool // AVX-VNNI
	avx2   bool // with FMA; F16C came before AVX2 on every processor (x86-64-v3), and the package has no flag for it
}

// nativeTiers returns the assembly tiers that this processor supports, best first.
var nativeTiers = sync.OnceValue(func() []*tier {
	x := &cpu.X86
	return tiersOf(features{
		avx512: x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL,
		bf16:   x.HasAVX512BF16,
		amx:    hasTiles(),
		vnni:   x.HasAVX512VNNI,
		avx:    x.HasAVXVNNI,
		avx2:   x.HasAVX2 && x.HasFMA,
	})
})

// tiersOf returns the tiers for a processor, best first.
func tiersOf(has features) (tiers []*tier) {
	bytes := int8Sets(has)[0]
	if has.avx512 {
		avx512 := newAVX512()
		avx512.int8 = bytes
		if has.bf16 {
			pairs := *avx512
			pairs.addPairs()
			if has.amx {
				tiles, set := pairs, *pairs.kernels[dotBF16]
				set.tiles = multiplyTiles
				tiles.name, tiles.kernels[dotBF16] = "amxbf16", &set
				tiers = append(tiers, &tiles)
			}
			tiers = append(tiers, &pairs)
		}
		widened := *avx512
		widened.addWidened()
		tiers = append(tiers, &widened, avx512)
	}
	if has.avx2 {
		f32 := newKernelSet(kernels256[:])
		f32.ahead = gemm256ahead
		avx2 := tier{name: "avx2", separateBlocks: true, lanes: 8, align: 16, usualWidth: 16, maxWidth: 16,
			pack: packers256, int8: int8Of256(has), row: rows256, attend: attention256,
			kernels: [dots]*kernelSet{f32}}
		shared := avx2 // the sums of AVX-512, with twice as many registers
		shared.name, shared.instructions, shared.row, shared.attend = "avx512", "avx2", rows256of512, attention256of512
		pairs := shared
		pairs.name, pairs.kernels[dotPairs] = "avx512bf16", newKernelSet(kernels256Pairs[:])
		pairs.kernels[dotPairs].ahead = gemm256pairsahead
		pairs.row.round[kernels.BF16] = roundRow256Soft
		pairs.store = storeSoft(&pairs.row, mulHalf256)
		pairs.attend.scaleRows[dotBF16] = scaleRowsSoft(&pairs.row, scaleRows256)
		tiers = append(tiers, &pairs, &shared, &avx2)
	}
	return tiers
}

// newAVX512 returns the tier without bf16.
func newAVX512() *tier {
	f32 := newKernelSet(kernels512F32[:])
	f32.ahead, f32.halves = gemm512f32ahead, halves512F32[:]
	t := &tier{name: "avx512", separateBlocks: true, lanes: 16, align: 16, usualWidth: 64, maxWidth: 80, pack: packers512,
		row: rows512, kernels: [dots]*kernelSet{f32}, attend: attention512}
	t.store.plain[kernels.F32], t.store.biased[kernels.F32] = store512F32, biasStore512F32
	return t
}

// addPairs changes t, the tier of newAVX512, to the tier with AVX512_BF16.
func (t *tier) addPairs() {
	t.name, t.kernels[dotBF16] = "avx512bf16", newKernelSet(kernels512BF16[:])
	t.row = rows512BF16
	t.store.plain[kernels.BF16], t.store.biased[kernels.BF16] = store512BF16, biasStore512BF16
	t.store.biasRound, t.store.mulRound = biasRoundRowsBF16, mulRoundRowsBF16
	t.store.add = addRowsBF16
	t.kernels[dotBF16].ahead, t.kernels[dotBF16].halves = gemm512bf16ahead, halves512BF16[:]
}

// addWidened changes t, the tier of newAVX512, to a tier that gives the bits of AVX512_BF16 without it.
func (t *tier) addWidened() {
	t.name, t.instructions, t.kernels[dotPairs] = "avx512bf16", "avx512", newKernelSet(kernels512Pairs[:])
	t.row, t.attend = rows512Soft, attention512Soft
	t.store.plain[kernels.BF16], t.store.biased[kernels.BF16] = store512BF16Soft, biasStore512BF16Soft
	t.store.biasRound, t.store.mulRound = biasRoundRowsBF16Soft, mulRoundRowsBF16Soft
	t.store.add = addRowsBF16
	t.kernels[dotPairs].ahead, t.kernels[dotPairs].halves = gemm512pairsahead, halves512Pairs[:]
}

// minGain is the least speed-up of widened terms over pairs that makes them worth it: they read more memory.
const minGain = 1.25

// fastestFirst puts the tier that widens pairs before the tier with AVX512_BF16 if it is faster: some processors compute pairs
// at half the rate of fp32. Both give the same bits. The speed is measured at the first call in a process, which takes less
// than a millisecond.
func fastestFirst(tiers []*tier) []*tier { return byRate(tiers, pairRates) }

func byRate(tiers []*tier, measure func() rates) []*tier {
	for i := range len(tiers) - 1 {
		pairs, widened := tiers[i], tiers[i+1]
		if pairs.kernels[dotBF16] == nil || widened.kernels[dotPairs] == nil || pairs.name != widened.name {
			continue
		}
		if r := measure(); r.Widened > minGain*r.Pairs {
			tiers[i], tiers[i+1] = widened, pairs
		}
	}
	return tiers
}

// rates are multiply-adds of bf16 of one processor, in GFLOP/s.
type rates struct{ Pairs, Widened float64 }

// pairRates measures loops without memory, the best of several.
var pairRates = sync.OnceValue(func() rates {
	const turns, rounds = 1500, 8
	best := func(run func(n int), flop float64) (rate float64) {
		for range rounds {
			before := time.Now()
			run(turns)
			rate = max(rate, turns*flop/time.Since(before).Seconds()/1e9)
		}
		return rate
	}
	return rates{best(peakBF16, 24*64), best(peakFMA512, 24*32)}
})

// describeRates describes the measured speed of pairs of bf16 and of widened pairs, if this processor has both and t is one of them.
func describeRates(t *tier) string {
	both := t.name == "avx512bf16" && slices.ContainsFunc(nativeTiers(), func(n *tier) bool { return n.kernels[dotBF16] != nil })
	if !both {
		return ""
	}
	r := pairRates()
	return fmt.Sprintf(" (pairs of bf16 %.0f GFLOP/s a thread, widened %.0f)", r.Pairs, r.Widened)
}
