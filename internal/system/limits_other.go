//go:build !linux

package system

// MemoryBounds returns nil: on this system no limits are known.
func MemoryBounds() []MemoryBound { return nil }

// OpenFiles returns 0: on this system the limit is not known.
func OpenFiles() (soft, hard uint64) { return 0, 0 }

func systemFree() int64 { return assumedFree }
