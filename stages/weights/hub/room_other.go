//go:build !unix

package hub

// freeBytes knows nothing on this system.
func freeBytes(string) (free int64, known bool) { return 0, false }
