package layout

import (
	"fmt"
	"math"

	"latentbeam/stages/sequence"
)

// Target is a device that gets a run of blocks.
type Target struct {
	Bytes int64   // how many bytes the blocks may use
	Speed float64 // relative; the time of a run is its work divided by Speed
}

// maxBlocks limits Partition: its time grows with the square.
const maxBlocks = 4096

// Partition divides a chain of blocks into one contiguous run for each target, in order. It minimises the largest work divided
// by speed; no target gets more bytes than it allows. Runs may be empty. Work has any unit. With the blocks' bytes as work, it
// minimises the bytes of the fullest target.
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
	// best[i] is the smallest possible largest time of the first i blocks on the targets seen so far. from holds the start of
	// the last target's run.
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

// Streaming says which blocks of a chain stay on a device and which are streamed.
type Streaming struct {
	Resident int   // number of first blocks that stay
	Buffer   int64 // bytes of each of the two buffers for the other blocks; 0: all stay
	Bytes    int64 // memory that the device needs
}

// Stream decides how a chain of blocks runs in room bytes, besides fixed bytes that belong to no block. If the chain fits, all
// blocks stay. Otherwise as many stay as possible next to two buffers of the size of the largest other block. While one buffer
// is in use, the next block is loaded into the other.
func Stream(blocks []int64, fixed, room int64) (Streaming, error) {
	total := fixed
	for _, b := range blocks {
		total += b
	}
	if total <= room {
		return Streaming{Resident: len(blocks), Bytes: total}, nil
	}
	largest := make([]int64, len(blocks)+1) // largest block from i on
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
