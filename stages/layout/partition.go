package layout

import (
	"fmt"
	"math"

	"latentbeam/stages/sequence"
)

// Target is a device that takes a run of blocks.
type Target struct {
	Bytes int64   // what the blocks may take of it
	Speed float64 // relative; the time of a run is its work over this
}

// maxBlocks bounds what Partition takes: its time grows with the square.
const maxBlocks = 4096

// Partition cuts a chain of blocks into one contiguous run for each target, in order, so that the largest
// work over speed is as small as can be and no target has more bytes than it may. Runs may be empty. Work is
// in any unit; with the blocks' bytes as work the fullest target is as empty as can be.
func Partition(bytes []int64, work []float64, targets []Target) ([]sequence.Range, error) {
	n := len(bytes)
	if n > maxBlocks || len(work) != n || len(targets) == 0 {
		return nil, fmt.Errorf("partition %d blocks with %d works over %d targets: "+
			"give as many works and 1 target at least", n, len(work), len(targets))
	}
	bytesTo, workTo := make([]int64, n+1), make([]float64, n+1)
	for i := range n {
		bytesTo[i+1], workTo[i+1] = bytesTo[i]+bytes[i], workTo[i]+work[i]
	}
	// best[i] is the least largest time of the first i blocks on the targets seen so far; from holds where the
	// last target's run begins.
	best := make([]float64, n+1)
	for i := 1; i <= n; i++ {
		best[i] = math.Inf(1)
	}
	from := make([][]int, len(targets))
	for t, target := range targets {
		next := make([]float64, n+1)
		from[t] = make([]int, n+1)
		for hi := range next {
			next[hi] = math.Inf(1)
			for lo := hi; lo >= 0 && bytesTo[hi]-bytesTo[lo] <= target.Bytes; lo-- {
				if time := max(best[lo], (workTo[hi]-workTo[lo])/target.Speed); time < next[hi] {
					next[hi], from[t][hi] = time, lo
				}
			}
		}
		best = next
	}
	if math.IsInf(best[n], 1) {
		return nil, fmt.Errorf("%d blocks of %d bytes do not fit %d devices in order", n, bytesTo[n], len(targets))
	}
	runs := make([]sequence.Range, len(targets))
	for t, hi := len(targets)-1, n; t >= 0; t-- {
		runs[t] = sequence.Range{Lo: from[t][hi], Hi: hi}
		hi = from[t][hi]
	}
	return runs, nil
}

// Streaming says which blocks of a chain stay on a device and which pass through it.
type Streaming struct {
	Resident int   // blocks from the first on that stay
	Buffer   int64 // bytes of each of the two buffers for the others; 0: all stay
	Bytes    int64 // that the device needs
}

// Stream decides how a chain of blocks runs in room bytes, beside fixed bytes that belong to no block: whole
// if it fits; else as many blocks stay as two buffers of the largest other block allow. While one buffer is
// at work the next block comes into the other.
func Stream(blocks []int64, fixed, room int64) (Streaming, error) {
	total := fixed
	for _, b := range blocks {
		total += b
	}
	if total <= room {
		return Streaming{Resident: len(blocks), Bytes: total}, nil
	}
	largest := make([]int64, len(blocks)+1) // of the blocks from i on
	for i := len(blocks) - 1; i >= 0; i-- {
		largest[i] = max(blocks[i], largest[i+1])
	}
	found := Streaming{Resident: -1}
	stay := fixed
	for i := range blocks {
		if need := stay + 2*largest[i]; need <= room {
			found = Streaming{Resident: i, Buffer: largest[i], Bytes: need}
		}
		stay += blocks[i]
	}
	if found.Resident < 0 {
		return found, fmt.Errorf("two buffers of %d bytes and %d bytes beside them do not fit %d bytes",
			largest[0], fixed, room)
	}
	return found, nil
}
