//go:build !linux

package system

// MemoryBounds lists what bounds the memory of this process: here nothing is known.
func MemoryBounds() []MemoryBound { return nil }

// OpenFiles is how many files this process may have open; 0: not known.
func OpenFiles() (soft, hard uint64) { return 0, 0 }

func systemFree() int64 { return assumed }
