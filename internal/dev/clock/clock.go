// Package clock lets the clock of this process jump, as one does that somebody sets while a job runs. Only tests import it.
//
// The runtime reads the time through a function of the kernel, whose address it keeps in a variable. Here another function takes
// its place, which adds the jump to the time of day. What counts the time that has passed is left as it is, as the kernel leaves
// it. So a test needs no other build of the standard library. It works on linux/amd64 alone.
package clock

import (
	"sync/atomic"
	"time"
)

// Every is how long the clock stands right, or equally wrong, before it jumps.
const Every = 20 * time.Millisecond

// Most is how far it jumps, both ways.
const Most = 10 * time.Hour

var (
	kernels uintptr // the function of the kernel
	jump    int64   // what is added to the time of day, in seconds
)

// Jump lets the clock of this process jump from now on. It reports whether it can: not where the runtime asks the kernel in
// another way.
func Jump() bool {
	if kernels = load(); kernels == 0 {
		return false
	}
	began := time.Now()
	store()
	go func() {
		for {
			// The same jumps in every process, spread over the hours.
			n := uint64(time.Since(began)/Every) * 0x9e3779b97f4a7c15
			atomic.StoreInt64(&jump, int64((n^n>>29)%uint64(2*Most/time.Second))-int64(Most/time.Second))
			time.Sleep(Every)
		}
	}()
	return true
}
