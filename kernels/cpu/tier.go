package cpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// dot is the kind of terms a product adds.
type dot uint8

const (
	dotF32  dot = iota // fp32, one product a term
	dotBF16            // two bf16 a term: exact products, fp32 sums
	dots
)

// tier is an instruction set: the micro-kernels, the panels they read, and the routines that pack them.
// Tiers give different last bits, so the tier's name is the backend's numeric class.
type tier struct {
	name    string
	lanes   int  // fp32 of a vector
	align   int  // panels have a multiple of this many columns
	usual   int  // columns of a panel where many are left
	widest  int  // columns of the last panel at most
	apart   bool // whether the kernels know reduce.apart
	kernels [dots]*kernelSet
	pack    packers
	row     rowMath
	attend  attentionMath
	store   storeMath
}

// panel returns the width of the next panel where n columns are left.
func (t *tier) panel(n int) int {
	if n > t.widest {
		return t.usual
	}
	return t.padded(n)
}

// padded returns n columns rounded up to whole vectors of the panels.
func (t *tier) padded(n int) int { return (n + t.align - 1) / t.align * t.align }

// portable is plain Go: the same bits on every platform.
var portable = &tier{
	name: "go", lanes: 2, align: 2, usual: 2, widest: 2,
	pack:    packersGo,
	row:     rowsGo,
	attend:  attentionGo,
	kernels: [dots]*kernelSet{newKernelSet([]microKernels{1: {1: reduceGo1, 3: reduceGo3}})},
}

// tierVariable is the environment variable that forces a tier, for tests and comparisons.
const tierVariable = "LATENTBEAM_CPU"

// chooseTier returns the best tier of this processor, or the one the environment asks for. Where that
// one cannot run here it returns the portable tier and an error.
func chooseTier() (*tier, error) {
	tiers := slices.Concat(nativeTiers(), []*tier{portable})
	want := os.Getenv(tierVariable)
	if want == "" {
		return tiers[0], nil
	}
	names := make([]string, len(tiers))
	for i, t := range tiers {
		if t.name == want {
			return t, nil
		}
		names[i] = t.name
	}
	return portable, fmt.Errorf("%s=%s: this processor has %s", tierVariable, want, strings.Join(names, ", "))
}
