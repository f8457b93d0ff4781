package cpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// dot is the kind of terms that a product adds.
type dot uint8

const (
	dotF32   dot = iota // fp32, one product per term
	dotBF16             // two bf16 per term: exact products, fp32 sums
	dotPairs            // the sums of dotBF16 with each bf16 widened to one term, so a pair is two terms
	dots
)

// tier is an instruction set: its micro-kernels, the panels that they read, and the routines that pack the panels. Its name is
// its numeric class: tiers of different names differ in the last bits, and tiers of one name give the same bits (decision 052).
type tier struct {
	name           string // the class
	instructions   string // the instructions, if they are not those of the class name
	lanes          int    // fp32 per vector
	align          int    // the width of a panel is a multiple of it
	usualWidth     int    // width of a panel if many columns are left
	maxWidth       int    // greatest width of the last panel
	separateBlocks bool   // whether the kernels support reduce.separate
	kernels        [dots]*kernelSet
	pack           packers
	row            rowMath
	attend         attentionRoutines
	store          storeRoutines
	int8           *int8Set
}

// panel returns the width of the next panel if n columns are left.
func (t *tier) panel(n int) int {
	if n > t.maxWidth {
		return t.usualWidth
	}
	return t.padded(n)
}

// String returns the tier's class and its instructions.
func (t *tier) String() string {
	if t.instructions == "" {
		return t.name
	}
	return t.name + ":" + t.instructions
}

// padded returns n columns rounded up to whole vectors of the panels.
func (t *tier) padded(n int) int { return (n + t.align - 1) / t.align * t.align }

// portable is plain Go: the same bits on every platform.
var portable = &tier{
	name: "go", lanes: 2, align: 2, usualWidth: 2, maxWidth: 2,
	pack:    packersGo,
	row:     rowsGo,
	attend:  attentionGo,
	int8:    int8Go,
	kernels: [dots]*kernelSet{newKernelSet([]microKernels{1: {1: reduceGo1, 3: reduceGo3}})},
}

// tierVariable is the environment variable that forces a tier, for tests and comparisons.
const tierVariable = "LATENTBEAM_CPU"

// classPrefix is the prefix of this package's numeric classes.
const classPrefix = "cpu/"

// tiers are the tiers of this processor, best first; within a class the fastest is first.
var tiers = sync.OnceValue(func() []*tier { return fastestFirst(slices.Concat(nativeTiers(), []*tier{portable}, sharedGo())) })

// Classes returns the numeric classes in which this processor can compute, best first. If the environment selects a tier, its
// class is the only one.
func Classes() (all []string) {
	want, _, _ := strings.Cut(os.Getenv(tierVariable), ":")
	for _, t := range tiers() {
		if class := classPrefix + t.name; (want == "" || t.name == want) && !slices.Contains(all, class) {
			all = append(all, class)
		}
	}
	return all
}

// Computes describes, for messages, the instructions of the class that New uses, and why they were chosen if that was measured.
func Computes() string {
	t, err := chooseTier("")
	if err != nil {
		return ""
	}
	by := t.instructions
	if by == "" {
		by = t.name
	}
	names := map[string]string{"avx512": "AVX-512", "avx2": "AVX2", "go": "plain Go", "avx512bf16": "AVX512_BF16", "amxbf16": "AMX"}
	return names[by] + describeRates(t)
}

// chooseTier returns the tier of a numeric class, or the tier that the environment selects, or the best of this processor. The
// environment names a class, or a class and its instructions, such as "avx512bf16:avx512". If this processor cannot run the
// tier, chooseTier returns the portable tier and an error.
func chooseTier(class string) (*tier, error) {
	want, why := strings.TrimPrefix(class, classPrefix), "class "+class
	if name := os.Getenv(tierVariable); name != "" {
		if of, _, _ := strings.Cut(name, ":"); want != "" && want != of {
			return portable, fmt.Errorf("%s=%s is not class %s", tierVariable, name, class)
		}
		want, why = name, tierVariable+"="+name
	}
	if want == "" {
		return tiers()[0], nil
	}
	var names []string
	for _, t := range tiers() {
		if t.name == want || t.String() == want || want == t.name+":"+t.name && t.instructions == "" {
			return t, nil
		}
		if !slices.Contains(names, t.name) {
			names = append(names, t.name)
		}
	}
	return portable, fmt.Errorf("%s: this processor has %s", why, strings.Join(names, ", "))
}
