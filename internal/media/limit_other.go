//go:build !linux

package media

// limitMemory does nothing: only Linux limits the memory of another process.
func limitMemory(int, uint64) {}
