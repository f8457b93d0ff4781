package devices

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"latentbeam/kernels"
)

// measureFor is how long a measurement repeats: long enough for clock rates to settle, short
// enough for a command that only prints.
const measureFor = 100 * time.Millisecond

// Setup identifies devices of equal speed.
type Setup struct {
	Class, Device           string        // of the backend
	Workers, Threads, Cores int           // sharing of the processors; Threads as configured, 0: all
	DType                   kernels.DType // of products
}

// Processors returns how many processors the first device uses at once.
func (k Setup) Processors() int {
	threads, workers := cmp.Or(k.Threads, k.Cores), max(1, k.Workers)
	return min(max(1, (threads+workers-1)/workers), max(1, k.Cores))
}

// Speed is the measured speed of a device: FLOP/s of a model, bytes/s of a copy, and the seconds of a minimal
// call.
type Speed struct{ Rate, Bandwidth, Call float64 }

// speeds caches the measurements of this process.
var speeds struct {
	sync.Mutex
	of map[Setup]Speed
}

// Measure returns the speed of a device of setup k. It measures with be unless this process has measured k already.
func Measure(be kernels.Backend, k Setup) (s Speed, err error) {
	speeds.Lock()
	defer speeds.Unlock()
	if s, ok := speeds.of[k]; ok {
		return s, nil
	}
	if s.Rate, err = rate(be, k.DType, k.clock()); err != nil {
		return s, err
	}
	if k.Device == "cpu" {
		s.Rate *= modelShare
	}
	if s.Bandwidth, err = Bandwidth(be); err != nil {
		return s, err
	}
	if s.Call, err = Call(be); err != nil {
		return s, err
	}
	if speeds.of == nil {
		speeds.of = map[Setup]Speed{}
	}
	speeds.of[k] = s
	return s, nil
}

// clock returns the clock for timing matrix products. For CPU devices it is the processor time divided by the device's
// processors, so that other load on the machine does not change the result.
func (k Setup) clock() clock {
	if k.Device != "cpu" || busy() == 0 {
		return wall
	}
	n := time.Duration(k.Processors())
	return clock{func() time.Duration { return busy() / n }, middle}
}

// clock reads a monotonic time, and chooses one of several measured times.
type clock struct {
	now    func() time.Duration
	counts func(seconds []float64) float64
}

// wall is wall-clock time. Other load only makes a measurement longer, so the shortest time counts.
var wall = clock{func() time.Duration { return time.Since(start) }, slices.Min[[]float64]}

// middle returns the median. On a busy machine the reported processor time is sometimes too low, so neither the shortest nor the
// longest time counts.
func middle(seconds []float64) float64 {
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}

var start = time.Now()

// modelShare is the fraction of a matrix product's rate that a whole model reaches on processors. A model also has
// convolutions of few channels, norms, attention and copies. The built-in model reaches 0.5, large denoisers 0.7.
const modelShare = 0.6

// rate measures the FLOP/s of be in a matrix product that is typical for denoisers: 512 tokens, 1152 channels to
// 1152.
func rate(be kernels.Backend, dt kernels.DType, c clock) (float64, error) {
	const rows, width = 512, 1152
	defer be.Scope()()
	x, y := be.Alloc(dt, rows, width), be.Alloc(dt, rows, width)
	w := be.Alloc(dt, width, width)
	be.Upload(x, make([]float32, rows*width))
	be.Upload(w, make([]float32, width*width))
	seconds, err := repeat(be, c, func() { be.Linear(y, x, w, kernels.Epilogue{}) })
	return 2 * rows * width * width / seconds, err
}

// Bandwidth measures how fast be copies, in bytes/s. Ranks that share a memory exchange at this rate.
func Bandwidth(be kernels.Backend) (float64, error) {
	const bytes = 8 << 20
	defer be.Scope()()
	x, y := be.Alloc(kernels.F32, bytes/4), be.Alloc(kernels.F32, bytes/4)
	be.Upload(x, make([]float32, bytes/4))
	seconds, err := repeat(be, wall, func() { be.Copy(y, x) })
	return bytes / seconds, err
}

// Call measures the seconds that be takes for one of the smallest products of a model.
func Call(be kernels.Backend) (float64, error) {
	const size, calls = 32, 8 // calls without a wait in between, as in a model
	defer be.Scope()()
	x, y, w := be.Alloc(kernels.F32, size, size), be.Alloc(kernels.F32, size, size), be.Alloc(kernels.F32, size, size)
	be.Upload(x, make([]float32, size*size))
	be.Upload(w, make([]float32, size*size))
	seconds, err := repeat(be, wall, func() {
		for range calls {
			be.Linear(y, x, w, kernels.Epilogue{})
		}
	})
	return seconds / calls, err
}

// minRepeats is the smallest number of repetitions, because a single measurement may be interrupted.
const minRepeats = 3

// repeat calls f once to warm up, then repeatedly, and returns the time that the clock chooses, in seconds.
func repeat(be kernels.Backend, c clock, f func()) (float64, error) {
	f()
	var took []float64
	for n, began := 0, time.Now(); n < minRepeats || time.Since(began) < measureFor; n++ {
		start := c.now()
		f()
		if err := be.Wait(); err != nil {
			return 0, err
		}
		took = append(took, (c.now() - start).Seconds())
	}
	return c.counts(took), be.Wait()
}
