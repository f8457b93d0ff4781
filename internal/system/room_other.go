//go:build !unix

package system

// FreeBytes returns false: on this system it is not known.
func FreeBytes(string) (free int64, known bool) { return 0, false }
