//go:build amd64 && !linux

package cpu

// hasTiles reports whether this process may use AMX: only Linux is asked.
func hasTiles() bool { return false }
