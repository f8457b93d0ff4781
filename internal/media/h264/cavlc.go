package h264

// chromaDC as nC selects the codes of the 2x2 chroma DC block (clause 9.2.1).
const chromaDC = -1

// maxLevel is the largest coefficient level whose level_prefix stays at 15, the limit for the Baseline
// profile (clause 9.2.2.1). Quantisation clips to it.
const maxLevel = 2063

// runLevels is one block split into runs and levels, from its highest frequency down.
type runLevels struct {
	level [16]int32
	run   [16]int // zeros before each level
	n     int     // TotalCoeff
	ones  int     // TrailingOnes
	zeros int     // total_zeros
}

// residual writes one block of levels in scan order (clause 7.3.5.3.2). nC is the context of
// clause 9.2.1 or chromaDC.
func (w *bitWriter) residual(levels []int16, nC int) {
	b := takeApart(levels)
	w.write(coeffTokenCode(nC, 4*b.n+b.ones))
	if b.n == 0 {
		return
	}
	for _, l := range b.level[:b.ones] {
		w.flag(l < 0)
	}
	w.levels(&b)
	if b.n < len(levels) {
		if nC == chromaDC {
			w.write(totalZerosChromaDC[b.n-1][b.zeros])
		} else {
			w.write(totalZeros[b.n-1][b.zeros])
		}
	}
	left := b.zeros
	for i := 0; i < b.n-1 && left > 0; i++ {
		w.write(runBefore[min(left, 7)-1][b.run[i]])
		left -= b.run[i]
	}
}

func takeApart(levels []int16) (b runLevels) {
	last := len(levels) - 1
	for last >= 0 && levels[last] == 0 {
		last--
	}
	if last < 0 {
		return b
	}
	run := 0
	for i := last; i >= 0; i-- {
		if levels[i] == 0 {
			run++
			b.zeros++
			continue
		}
		if b.n > 0 {
			b.run[b.n-1] = run
		}
		b.level[b.n] = int32(levels[i])
		b.n++
		run = 0
	}
	b.run[b.n-1] = run
	for b.ones < min(3, b.n) && (b.level[b.ones] == 1 || b.level[b.ones] == -1) {
		b.ones++
	}
	return b
}

func coeffTokenCode(nC, index int) code {
	switch {
	case nC == chromaDC:
		return coeffTokenChromaDC[index]
	case nC < 2:
		return coeffToken[0][index]
	case nC < 4:
		return coeffToken[1][index]
	case nC < 8:
		return coeffToken[2][index]
	default:
		return coeffToken[3][index]
	}
}

// levels writes level_prefix and level_suffix of the levels that are not trailing ones (clause 9.2.2.1).
func (w *bitWriter) levels(b *runLevels) {
	suffixLength := uint(0)
	if b.n > 10 && b.ones < 3 {
		suffixLength = 1
	}
	for i := b.ones; i < b.n; i++ {
		level := b.level[i]
		levelCode := 2*level - 2
		if level < 0 {
			level = -level
			levelCode = 2*level - 1
		}
		if i == b.ones && b.ones < 3 {
			levelCode -= 2
		}
		w.level(uint32(levelCode), suffixLength)
		if suffixLength == 0 {
			suffixLength = 1
		}
		if level > 3<<(suffixLength-1) && suffixLength < 6 {
			suffixLength++
		}
	}
}

func (w *bitWriter) level(levelCode uint32, suffixLength uint) {
	switch {
	case suffixLength == 0 && levelCode < 14:
		w.bits(1, uint(levelCode)+1)
	case suffixLength == 0 && levelCode < 30:
		w.bits(1, 15)
		w.bits(levelCode-14, 4)
	case suffixLength == 0:
		w.bits(1, 16)
		w.bits(levelCode-30, 12)
	case levelCode < 15<<suffixLength:
		w.bits(1, uint(levelCode>>suffixLength)+1)
		w.bits(levelCode&(1<<suffixLength-1), suffixLength)
	default:
		w.bits(1, 16)
		w.bits(levelCode-15<<suffixLength, 12)
	}
}
