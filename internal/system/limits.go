package system

// MemoryBound is a bound on the memory of this process.
type MemoryBound struct {
	What string // "control group /system.slice/x"
	Most int64  // bytes
	Used int64  // bytes that count for it already
}

// Free is what the bound leaves.
func (m MemoryBound) Free() int64 { return max(0, m.Most-m.Used) }

// SmallestBound returns the bound that leaves the least; ok is false where nothing bounds the process.
func SmallestBound(bounds []MemoryBound) (least MemoryBound, ok bool) {
	for i, b := range bounds {
		if i == 0 || b.Free() < least.Free() {
			least = b
		}
	}
	return least, len(bounds) > 0
}

// assumed stands in where the system does not tell what is free.
const assumed = 4 << 30

// AvailableMemory is the memory that this process may still take, in bytes: what the system has free, or what a control group, a
// resource limit or Slurm leaves.
func AvailableMemory() int64 {
	free := systemFree()
	if least, ok := SmallestBound(MemoryBounds()); ok {
		free = min(free, least.Free())
	}
	return free
}
