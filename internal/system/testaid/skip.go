package testaid

import (
	"os/exec"
	"testing"
)

// Long skips a test in make test (go test -short), and make check runs it. The text says why it takes long. No promise of
// docs/reliability.md may hang on such tests alone.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make check runs it: " + why)
	}
}

// Needs skips a test on a machine that lacks one of the programs.
func Needs(t testing.TB, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("there is no " + name)
		}
	}
}
