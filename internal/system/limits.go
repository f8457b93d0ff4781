package system

// MemoryBound is a limit on the memory of this process.
type MemoryBound struct {
	What string // source of the limit, such as "control group /system.slice/x"
	Most int64  // bytes
	Used int64  // bytes that count for it now
}

// Free returns the bytes that the limit leaves.
func (m MemoryBound) Free() int64 { return max(0, m.Most-m.Used) }

// SmallestBound returns the limit that leaves the fewest bytes. ok is false if there is no limit.
func SmallestBound(bounds []MemoryBound) (least MemoryBound, ok bool) {
	for i, b := range bounds {
		if i == 0 || b.Free() < least.Free() {
			least = b
		}
	}
	return least, len(bounds) > 0
}

// assumedFree is used if the system does not say how much memory is free.
const assumedFree = 4 << 30

// AvailableMemory returns how much memory this process may still allocate, in bytes: the smallest of the free memory of the system
// and of what control groups, resource limits and Slurm leave.
func AvailableMemory() int64 {
	free := systemFree()
	if least, ok := SmallestBound(MemoryBounds()); ok {
		free = min(free, least.Free())
	}
	return free
}
