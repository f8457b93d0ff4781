//go:build !amd64

package cpu

// nativePeak is a loop of assembly that does only arithmetic, flop operations per iteration.
type nativePeak struct {
	kind string
	flop float64
	run  func(n int)
}

// nativePeaks returns none: these systems have no assembly.
func nativePeaks(*tier) []nativePeak { return nil }

// readMemory reads all bytes of memory.
func readMemory(memory []byte) {
	var sum byte
	for _, x := range memory {
		sum ^= x
	}
	_ = sum
}
