package stdit

import "testing"

// bf16Tolerance is the relative RMS by which two honest orderings of the reference differ in bf16.
const bf16Tolerance = 1.2e-2

func checkBF16(t *testing.T, c goldenCase, rms float64) {
	want := bf16Tolerance
	if c.Tolerance > want {
		want = c.Tolerance
	}
	if rms > want {
		t.Errorf("relative RMS %.2g from the reference in bf16, want at most %.2g", rms, want)
	}
}
