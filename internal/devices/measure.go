package devices

import (
	"math"
	"sync"
	"time"

	"latentbeam/kernels"
)

// measureFor is how long a measurement repeats what it measures: long enough for clocks to settle, short
// enough for a command that only prints.
const measureFor = 100 * time.Millisecond

// Setup is what devices of equal speed have in common.
type Setup struct {
	Class, Device           string // as of the backend
	Workers, Threads, Cores int    // that share the processors; Threads as configured, 0: all
}

// Speed is what a device was measured to do: FLOP/s of a matrix product, and bytes/s of a copy.
type Speed struct{ Rate, Bandwidth float64 }

// speeds holds what was measured in this process.
var speeds struct {
	sync.Mutex
	of map[Setup]Speed
}

// Measure returns the speed of a device of setup k, measured with be where this process has measured none.
func Measure(be kernels.Backend, k Setup) (s Speed, err error) {
	speeds.Lock()
	defer speeds.Unlock()
	if s, ok := speeds.of[k]; ok {
		return s, nil
	}
	if s.Rate, err = Rate(be); err != nil {
		return s, err
	}
	if s.Bandwidth, err = Bandwidth(be); err != nil {
		return s, err
	}
	if speeds.of == nil {
		speeds.of = map[Setup]Speed{}
	}
	speeds.of[k] = s
	return s, nil
}

// Rate measures the FLOP/s that be reaches in a matrix product of the shape that denoisers spend their time
// in: 512 tokens, 1152 channels to 1152.
func Rate(be kernels.Backend) (float64, error) {
	const rows, width = 512, 1152
	defer be.Scope()()
	x, y := be.Alloc(kernels.F32, rows, width), be.Alloc(kernels.F32, rows, width)
	w := be.Alloc(kernels.F32, width, width)
	be.Upload(x, make([]float32, rows*width))
	be.Upload(w, make([]float32, width*width))
	seconds, err := repeat(be, func() { be.Linear(y, x, w, kernels.Epilogue{}) })
	return 2 * rows * width * width / seconds, err
}

// Bandwidth measures how fast be copies, in bytes/s. Ranks of one memory exchange at this rate.
func Bandwidth(be kernels.Backend) (float64, error) {
	const bytes = 8 << 20
	defer be.Scope()()
	x, y := be.Alloc(kernels.F32, bytes/4), be.Alloc(kernels.F32, bytes/4)
	be.Upload(x, make([]float32, bytes/4))
	seconds, err := repeat(be, func() { be.Copy(y, x) })
	return bytes / seconds, err
}

// leastTimes is how often a measurement is repeated in any case: while one lasts the machine may stop for a moment.
const leastTimes = 3

// repeat returns the shortest time of f in seconds, after one that does not count.
func repeat(be kernels.Backend, f func()) (float64, error) {
	f()
	best := math.Inf(1)
	for n, began := 0, time.Now(); n < leastTimes || time.Since(began) < measureFor; n++ {
		start := time.Now()
		f()
		if err := be.Wait(); err != nil {
			return 0, err
		}
		best = min(best, time.Since(start).Seconds())
	}
	return best, be.Wait()
}
