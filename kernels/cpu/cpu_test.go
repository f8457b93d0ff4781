package cpu_test

import (
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
)

// onEveryTier runs f once for each tier of this processor.
func onEveryTier(t *testing.T, f func(t *testing.T)) {
	for _, tier := range []string{"amxbf16", "avx512bf16:avx512bf16", "avx512", "avx2", "go"} {
		t.Run(tier, func(t *testing.T) {
			t.Setenv("LATENTBEAM_CPU", tier)
			b := cpu.New(1)
			if err := b.Wait(); err != nil {
				if tier == "go" || !strings.Contains(err.Error(), "this processor has") {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			if class, _, _ := strings.Cut(tier, ":"); b.Class() != "cpu/"+class {
				t.Fatalf("got class %q, want cpu/%s", b.Class(), class)
			}
			f(t)
		})
	}
}

// TestSuite runs the suite of all backends in every tier.
func TestSuite(t *testing.T) {
	onEveryTier(t, func(t *testing.T) {
		kerneltest.Run(t, func(threads int) kernels.Backend { return cpu.New(threads) })
	})
}

// TestOneClass: a numeric class is named after the instructions that compute it best. Tiers that compute it with other instructions give the
// same bits in the whole suite.
func TestOneClass(t *testing.T) {
	compareTiers(t, "avx512bf16", "avx512", "avx2", "go")
	compareTiers(t, "avx512", "avx2")
}

// TestOneClassInGo: plain Go gives the bits of the class avx512. TestOneClass runs most of the same code, for the class avx512bf16.
func TestOneClassInGo(t *testing.T) {
	if testing.Short() {
		t.Skip("make check runs it: plain Go is slow")
	}
	compareTiers(t, "avx512", "go")
}

// compareTiers runs the suite in a class by its own tier and by others, and compares the bits.
func compareTiers(t *testing.T, class string, others ...string) {
	record := func(t *testing.T, by string) *kerneltest.Log {
		t.Setenv("LATENTBEAM_CPU", class+":"+by)
		if err := cpu.New(1).Wait(); err != nil {
			t.Skip(err)
		}
		return kerneltest.Record(t, func(threads int) kernels.Backend { return cpu.New(threads) })
	}
	t.Run(class, func(t *testing.T) {
		want := record(t, class)
		for _, by := range others {
			t.Run(by, func(t *testing.T) { want.Compare(t, record(t, by)) })
		}
	})
}

// TestSuiteOfWrappers runs the suite on Metered over Deferred: neither changes a result. Deferred does the work when somebody waits for
// it, as a GPU does.
func TestSuiteOfWrappers(t *testing.T) {
	kerneltest.Run(t, func(threads int) kernels.Backend { return kernels.NewMetered(kerneltest.Deferred(cpu.New(threads))) })
}

// TestUnknownTierFails: selecting an unknown tier by the environment is an error, and no other tier is used in its place.
func TestUnknownTierFails(t *testing.T) {
	t.Setenv("LATENTBEAM_CPU", "abacus")
	if err := cpu.New(1).Wait(); err == nil || !strings.Contains(err.Error(), "LATENTBEAM_CPU=abacus") {
		t.Errorf("got error %v, want one about LATENTBEAM_CPU=abacus", err)
	}
}
