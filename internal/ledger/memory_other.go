//go:build !unix

package ledger

// allocate takes memory from the Go heap; slots hold no pointers and are not scanned.
func allocate(slots int) ([]slot, func(), error) {
	return make([]slot, slots), func() {}, nil
}

// discard leaves the memory to the collector.
func discard([]slot) {}
