//go:build !unix

package system

// FreeBytes knows nothing on this system.
func FreeBytes(string) (free int64, known bool) { return 0, false }
