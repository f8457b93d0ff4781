// Package clock makes the clock of this process jump, like a system clock that is set while a job runs. Only tests import it.
//
// The Go runtime reads the time through a function of the kernel, whose address is in a variable. This package replaces the address
// by a function that adds the jump to the time of day. It does not change the monotonic clock, because the kernel does not change
// it either. So tests need no modified standard library. It works only on linux/amd64.
package clock

import (
	"sync/atomic"
	"time"
)

// Every is the time between two jumps.
const Every = 20 * time.Millisecond

// Most is the largest jump, forwards or backwards.
const Most = 10 * time.Hour

var (
	kernels uintptr // address of the kernel's function
	jump    int64   // seconds that are added to the time of day
)

// Jump makes the clock of this process jump from now on. It returns false if it cannot, because the runtime reads the time in
// another way.
func Jump() bool {
	if kernels = load(); kernels == 0 {
		return false
	}
	began := time.Now()
	store()
	go func() {
		for {
			// The jumps are the same in every process and of different sizes.
			n := uint64(time.Since(began)/Every) * 0x9e3779b97f4a7c15
			atomic.StoreInt64(&jump, int64((n^n>>29)%uint64(2*Most/time.Second))-int64(Most/time.Second))
			time.Sleep(Every)
		}
	}()
	return true
}
