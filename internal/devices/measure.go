package devices

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"latentbeam/kernels"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
)

// measureFor is how long a measurement repeats, by its clock: long enough for clock rates to settle, short enough for a command
// that only prints.
const measureFor = 25 * time.Millisecond

// Setup identifies devices of equal speed.
type Setup struct {
	Class, Device           string // of the backend
	Workers, Threads, Cores int    // sharing of the processors; Threads as configured, 0: all
}

// Processors returns how many processors the first device uses at once.
func (k Setup) Processors() int {
	threads, workers := cmp.Or(k.Threads, k.Cores), max(1, k.Workers)
	return min(max(1, (threads+workers-1)/workers), max(1, k.Cores))
}

// Speed is the measured speed of a device: seconds of its kernels, and bytes/s of a copy.
type Speed struct {
	Price     cost.Kernels // 0 for products that were not asked for
	Bandwidth float64
}

// speeds caches the measurements of this process.
var speeds struct {
	sync.Mutex
	of map[Setup]Speed
}

// Measure returns the speed of a device of setup k in the kernels of work. It measures with be what neither this process nor an
// earlier one of this day has measured.
func Measure(be kernels.Backend, k Setup, work cost.Kernels) (Speed, error) {
	speeds.Lock()
	defer speeds.Unlock()
	if speeds.of == nil {
		speeds.of = map[Setup]Speed{}
	}
	s, found := speeds.of[k]
	if !found {
		s = recallSpeed(k)
	}
	known := s
	if err := s.measure(be, k.clock(), work); err != nil {
		return s, err
	}
	speeds.of[k] = s
	if s != known {
		rememberSpeed(k, s)
	}
	return s, nil
}

// measure measures the kernels of work that have no price yet, and at first everything but products.
func (s *Speed) measure(be kernels.Backend, c clock, work cost.Kernels) (err error) {
	if s.Bandwidth == 0 { // the last of them
		if s.Price.Calls, err = Call(be, c); err != nil {
			return err
		}
		if s.Price.Elements, err = element(be, c); err != nil {
			return err
		}
		if s.Price.Rows, err = s.row(be, c); err != nil {
			return err
		}
		if s.Bandwidth, err = Bandwidth(be); err != nil {
			return err
		}
	}
	for op, types := range work.Products {
		for t, p := range types {
			price := &s.Price.Products[op][t]
			if p.FLOP == 0 || price.FLOP > 0 {
				continue
			}
			if *price, err = s.product(be, c, kernels.Op(op), kernels.DType(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// clock returns the clock for timing matrix products. For CPU devices it is the processor time divided by the device's
// processors, so that other load on the machine does not change the result.
func (k Setup) clock() clock {
	if k.Device != "cpu" || busy() == 0 {
		return wall
	}
	n := time.Duration(k.Processors())
	return clock{func() time.Duration { return busy() / n }, middle, 8 * time.Millisecond}
}

// clock reads a monotonic time, and chooses one of several measured times.
type clock struct {
	now    func() time.Duration
	counts func(seconds []float64) float64
	// exact is the shortest time that the clock measures well. The system adds the time of a thread on another processor to the
	// process only every few milliseconds.
	exact time.Duration
}

// wall is wall-clock time. Other load only makes a measurement longer, so the shortest time counts.
var wall = clock{func() time.Duration { return time.Since(start) }, slices.Min[[]float64], 0}

// middle returns the median. On a busy machine the reported processor time is sometimes too low, so neither the shortest nor the
// longest time counts.
func middle(seconds []float64) float64 {
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}

var start = time.Now()

// product measures the seconds of a FLOP and of an element in products of factors of a type, by a product with much work for an
// element and one with little. Their calls have a price of their own.
func (s *Speed) product(be kernels.Backend, c clock, op kernels.Op, factors kernels.DType) (cost.Product, error) {
	var work [2]cost.Product
	var seconds [2]float64
	for i, small := range []bool{false, true} {
		one := productOf(op, factors, small)
		done, err := nn.Work(func(be kernels.Backend) error { one(be)(); return nil })
		if err != nil {
			return cost.Product{}, err
		}
		work[i] = done.Products[op][factors]
		end := be.Scope()
		took, err := repeat(be, c, one(be))
		end()
		if err != nil {
			return cost.Product{}, err
		}
		seconds[i] = max(took-s.Price.Calls, took/2)
	}
	return prices(work, seconds), nil
}

// prices returns the price of a FLOP and of an element that explains how long two products took. No price is negative.
func prices(work [2]cost.Product, seconds [2]float64) (p cost.Product) {
	large, small := work[0], work[1]
	// large.FLOP p.FLOP + large.Elements p.Elements = seconds[0], and the same for small
	p.Elements = (seconds[1]*large.FLOP - seconds[0]*small.FLOP) / (small.Elements*large.FLOP - large.Elements*small.FLOP)
	p.Elements = min(max(0, p.Elements), seconds[0]/2/large.Elements)
	p.FLOP = (seconds[0] - p.Elements*large.Elements) / large.FLOP
	return p
}

// productOf returns a function that allocates the operands of a product on a backend and returns the product. The larger one is
// typical of large models, the smaller one of small ones.
func productOf(op kernels.Op, factors kernels.DType, small bool) func(be kernels.Backend) func() {
	int8 := factors == kernels.Int8
	if int8 {
		factors = kernels.F32
	}
	choose := func(large, little []int) []int {
		if small {
			return little
		}
		return large
	}
	return func(be kernels.Backend) func() {
		alloc := func(shape ...int) kernels.Tensor {
			t := be.Alloc(factors, shape...)
			be.Upload(t, make([]float32, t.Len()))
			return t
		}
		switch op {
		case kernels.OpAttention:
			shape := choose([]int{1, 512, 8, 64}, []int{128, 16, 6, 32})
			dst, q, k, v := alloc(shape...), alloc(shape...), alloc(shape...), alloc(shape...)
			return func() { be.Attention(dst, q, k, v, kernels.AttentionSpec{Scale: 1, Int8: int8}) }
		case kernels.OpConv:
			shape := choose([]int{1, 64, 64, 96}, []int{1, 64, 64, 16})
			x, dst, w := alloc(shape...), alloc(shape...), alloc(shape[3], shape[3], 3, 3)
			return func() { be.Conv(dst, x, w, kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1}) }
		default:
			shape := choose([]int{512, 1152}, []int{4096, 96})
			x, dst, w := alloc(shape...), alloc(shape...), alloc(shape[1], shape[1])
			ep := kernels.Epilogue{Int8: int8}
			if small { // the widest products of a block end in an activation, which costs small ones most
				ep.Act = kernels.GELUTanh
			}
			return func() { be.Linear(dst, x, w, ep) }
		}
	}
}

// element measures the seconds of an element that a kernel other than a product reads or writes: in a norm with an activation, with
// more elements than caches hold.
func element(be kernels.Backend, c clock) (float64, error) {
	const rows, width = 4096, 1152
	defer be.Scope()()
	x, y := be.Alloc(kernels.F32, rows, width), be.Alloc(kernels.F32, rows, width)
	be.Upload(x, make([]float32, rows*width))
	seconds, err := repeat(be, c, func() { be.Norm(y, x, kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6, Act: kernels.SiLU}) })
	return seconds / (2 * rows * width), err
}

// row measures what a short row costs besides its elements, in a norm of a small autoencoder.
func (s *Speed) row(be kernels.Backend, c clock) (float64, error) {
	shape := []int{4, 64, 64, 16}
	defer be.Scope()()
	x, y := be.Alloc(kernels.F32, shape...), be.Alloc(kernels.F32, shape...)
	be.Upload(x, make([]float32, x.Len()))
	seconds, err := repeat(be, c, func() {
		be.Norm(y, x, kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 8, Eps: 1e-6, Act: kernels.SiLU})
	})
	rows := float64(x.Len() / shape[3])
	return max(0, seconds-s.Price.Calls-2*float64(x.Len())*s.Price.Elements) / rows, err
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

// Call measures the seconds of one of the smallest products of a model.
func Call(be kernels.Backend, c clock) (float64, error) {
	const size, calls = 32, 8 // calls without a wait in between, as in a model
	defer be.Scope()()
	x, y, w := be.Alloc(kernels.F32, size, size), be.Alloc(kernels.F32, size, size), be.Alloc(kernels.F32, size, size)
	be.Upload(x, make([]float32, size*size))
	be.Upload(w, make([]float32, size*size))
	seconds, err := repeat(be, c, func() {
		for range calls {
			be.Linear(y, x, w, kernels.Epilogue{})
		}
	})
	return seconds / calls, err
}

// minRepeats is the smallest number of repetitions, because a single measurement may be interrupted.
const minRepeats = 3

// repeat calls f once to warm up, then repeatedly, and returns the time of a call that the clock chooses, in seconds. Calls that are
// shorter than the clock's exact time are measured together.
func repeat(be kernels.Backend, c clock, f func()) (float64, error) {
	f()
	if err := be.Wait(); err != nil {
		return 0, err
	}
	var took []float64
	for calls, began := 1, c.now(); len(took) < minRepeats || c.now()-began < measureFor; {
		start := c.now()
		for range calls {
			f()
		}
		if err := be.Wait(); err != nil {
			return 0, err
		}
		t := c.now() - start
		if t < c.exact && len(took) == 0 {
			calls *= 2
			continue
		}
		took = append(took, t.Seconds()/float64(calls))
	}
	return c.counts(took), nil
}
