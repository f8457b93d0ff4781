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

// classPrefix begins the numeric classes of this package.
const classPrefix = "cpu/"

// Classes returns the numeric classes in which this processor can compute, best first. Where the environment asks for a
// tier, that is the only one.
func Classes() (all []string) {
	want := os.Getenv(tierVariable)
	for _, t := range slices.Concat(nativeTiers(), []*tier{portable}) {
		if want == "" || t.name == want {
			all = append(all, classPrefix+t.name)
		}
	}
	return all
}

// chooseTier returns the tier of a numeric class, or the one the environment asks for, or the best of this processor.
// Where it cannot run here chooseTier returns the portable tier and an error.
func chooseTier(class string) (*tier, error) {
	tiers := slices.Concat(nativeTiers(), []*tier{portable})
	want, why := strings.TrimPrefix(class, classPrefix), "class "+class
	if name := os.Getenv(tierVariable); name != "" {
		if want != "" && want != name {
			return portable, fmt.Errorf("%s=%s is not class %s", tierVariable, name, class)
		}
		want, why = name, tierVariable+"="+name
	}
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
	return portable, fmt.Errorf("%s: this processor has %s", why, strings.Join(names, ", "))
}
