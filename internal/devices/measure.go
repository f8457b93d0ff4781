package devices

import (
	"math"
	"time"

	"latentbeam/kernels"
)

// measureFor is how long a measurement repeats what it measures: long enough for clocks to settle, short
// enough for a command that only prints.
const measureFor = 100 * time.Millisecond

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
