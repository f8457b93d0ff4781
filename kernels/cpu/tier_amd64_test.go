package cpu

import (
	"fmt"
	"strings"
	"testing"
)

// TestTiersOf: which tiers a processor with some features has, best first. A tier CLASS:INSTRUCTIONS computes the bits of a class with other
// instructions. Where the processor's products of bf16 pairs are slower than products of numbers widened to fp32, the latter come first.
func TestTiersOf(t *testing.T) {
	all := features{avx512: true, bf16: true, avx2: true}
	without := features{avx512: true, avx2: true}
	for want, has := range map[string]features{
		"[avx512bf16 avx512bf16:avx512 avx512 avx512bf16:avx2 avx512:avx2 avx2]": all,
		"[avx512bf16:avx512 avx512 avx512bf16:avx2 avx512:avx2 avx2]":            without,
		"[avx512bf16:avx2 avx512:avx2 avx2]":                                     {avx2: true},
		"[]":                                                                     {},
	} {
		if got := fmt.Sprint(tiersOf(has)); got != want {
			t.Errorf("features %+v: got tiers %s, want %s", has, got, want)
		}
	}
	for fast, r := range map[string]rates{"avx512bf16": {Pairs: 400, Widened: 200}, "avx512bf16:avx512": {Pairs: 176, Widened: 353}} {
		if got := byRate(tiersOf(all), func() rates { return r })[0].String(); got != fast {
			t.Errorf("measured rates %+v: %s is first, want %s", r, got, fast)
		}
	}
	if r := byRate(tiersOf(without), func() rates { t.Error("byRate measures although there is no choice"); return rates{} }); len(r) != 5 {
		t.Errorf("got tiers %v, want 5", r)
	}
}

// TestComputes: Computes names the instructions of the tier that the environment selects.
func TestComputes(t *testing.T) {
	for name, want := range map[string]string{"avx2": "AVX2", "avx512bf16:avx2": "AVX2", "avx512bf16:go": "plain Go", "avx512bf16:avx512bf16": "AVX512_BF16"} {
		t.Setenv(tierVariable, name)
		if _, err := chooseTier(""); err != nil {
			continue // this processor lacks it
		}
		if got := Computes(); !strings.HasPrefix(got, want) {
			t.Errorf("tier %s: got %q, want %q", name, got, want)
		}
	}
}
