package testaid

import (
	"os/exec"
	"testing"
)

// Long skips a test in `make test` (go test -short); `make check` runs it. why says why the test takes long. Each promise in
// docs/reliability.md also needs tests that are not skipped.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make check runs it: " + why)
	}
}

// Needs skips a test if one of the programs is not installed.
func Needs(t testing.TB, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("there is no " + name)
		}
	}
}
