package devices

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"latentbeam/kernels"
)

// measureFor is how long a measurement repeats what it measures: long enough for clocks to settle, short
// enough for a command that only prints.
const measureFor = 100 * time.Millisecond

// Setup is what devices of equal speed have in common.
type Setup struct {
	Class, Device           string        // as of the backend
	Workers, Threads, Cores int           // that share the processors; Threads as configured, 0: all
	DType                   kernels.DType // of products
}

// Processors is how many processors the first of the devices works on at once.
func (k Setup) Processors() int {
	threads, workers := cmp.Or(k.Threads, k.Cores), max(1, k.Workers)
	return min(max(1, (threads+workers-1)/workers), max(1, k.Cores))
}

// Speed is what a device was measured to do: FLOP/s of a model, bytes/s of a copy, and the seconds of a call
// that has next to nothing to compute.
type Speed struct{ Rate, Bandwidth, Call float64 }

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
	if s.Rate, err = rate(be, k.DType, k.clock()); err != nil {
		return s, err
	}
	if k.Device == "cpu" {
		s.Rate *= reached
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

// clock is what a matrix product is timed by. Of processors it is the time that they worked, shared out to those of the
// device, so that a busy machine is measured as an idle one.
func (k Setup) clock() clock {
	if k.Device != "cpu" || busy() == 0 {
		return wall
	}
	n := time.Duration(k.Processors())
	return clock{func() time.Duration { return busy() / n }, middle}
}

// clock reads a time that goes on, of which only differences mean something, and says which of several measured times counts.
type clock struct {
	now    func() time.Duration
	counts func(seconds []float64) float64
}

// wall is the time of everybody. Where a measurement waits for others it takes longer, so the shortest counts.
var wall = clock{func() time.Duration { return time.Since(start) }, slices.Min[[]float64]}

// middle is the median. What processors worked is told too low now and then, of one thread of two on a busy machine, so neither the
// shortest nor the longest time counts.
func middle(seconds []float64) float64 {
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}

var start = time.Now()

// reached is the part of the rate of one product alone that a whole model reaches on processors: beside products it has
// convolutions of few channels, norms, attention and copies. The built-in model reaches 0.5, large denoisers 0.7.
const reached = 0.6

// rate measures the FLOP/s that be reaches in a matrix product of the shape that denoisers spend their time
// in: 512 tokens, 1152 channels to 1152.
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

// Bandwidth measures how fast be copies, in bytes/s. Ranks of one memory exchange at this rate.
func Bandwidth(be kernels.Backend) (float64, error) {
	const bytes = 8 << 20
	defer be.Scope()()
	x, y := be.Alloc(kernels.F32, bytes/4), be.Alloc(kernels.F32, bytes/4)
	be.Upload(x, make([]float32, bytes/4))
	seconds, err := repeat(be, wall, func() { be.Copy(y, x) })
	return bytes / seconds, err
}

// Call measures how long be takes for a product that is as small as they get in a model, in seconds.
func Call(be kernels.Backend) (float64, error) {
	const size, calls = 32, 8 // that follow one another without a wait, as those of a model
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

// leastTimes is how often a measurement is repeated in any case: while one lasts the machine may stop for a moment.
const leastTimes = 3

// repeat returns the time of f that counts by a clock, in seconds, after one that does not count.
func repeat(be kernels.Backend, c clock, f func()) (float64, error) {
	f()
	var took []float64
	for n, began := 0, time.Now(); n < leastTimes || time.Since(began) < measureFor; n++ {
		start := c.now()
		f()
		if err := be.Wait(); err != nil {
			return 0, err
		}
		took = append(took, (c.now() - start).Seconds())
	}
	return c.counts(took), be.Wait()
}
