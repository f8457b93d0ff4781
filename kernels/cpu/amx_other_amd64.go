//go:build amd64 && !linux

package cpu

// hasTiles returns false: this package asks for AMX only on Linux.
func hasTiles() bool { return false }
