package layout

import (
	"math"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// TestHostWork: the host's work for an element adds to the time if the device is the host's processors; beside another device
// it runs at the same time.
func TestHostWork(t *testing.T) {
	for _, c := range []struct {
		work, host float64 // FLOP of the device and seconds of the host for one element
		processors int     // 0: the device is not the host's processors
		want       float64 // seconds
	}{
		{8, 0, 2, 2}, {8, 1, 2, 4}, {0, 1, 1, 4}, // 4 elements on a device of 16 FLOP/s
		{8, 1, 0, 2}, {8, 5, 0, 5},
	} {
		got, err := Seconds(cost.Estimate{Work: c.work, Host: c.host}, 4, []DeviceModel{{Rate: 16, Processors: c.processors}})
		if err != nil || got != c.want {
			t.Errorf("%+v: got %g s and error %v, want %g s", c, got, err, c.want)
		}
	}
}

// TestPrices: a device may have prices, the seconds of each kind of kernel work (products by kind and type, elements, rows, calls).
// The time of a stage is then amount times price, summed over the kinds; the time of a denoiser is that of its steps. Two devices
// need half the time for a step.
func TestPrices(t *testing.T) {
	var kernel, seconds cost.Kernels
	kernel.Products[kernels.OpLinear][kernels.BF16] = cost.Product{FLOP: 100, Elements: 10}
	kernel.Products[kernels.OpAttention][kernels.F32] = cost.Product{FLOP: 50}
	kernel.Elements, kernel.Rows, kernel.Calls = 20, 2, 3
	seconds.Products[kernels.OpLinear][kernels.BF16] = cost.Product{FLOP: 1, Elements: 4}
	seconds.Products[kernels.OpAttention][kernels.F32] = cost.Product{FLOP: 2}
	seconds.Products[kernels.OpConv][kernels.F32] = cost.Product{FLOP: 1000}
	seconds.Elements, seconds.Rows, seconds.Calls = 5, 6, 7
	const one = 100*1 + 10*4 + 50*2 + 20*5 + 2*6 + 3*7
	d := Priced(kernel.Times(2), seconds)
	if want := 150. / one; math.Abs(d.Rate/want-1) > 1e-12 {
		t.Errorf("the device reaches %g FLOP/s, want %g", d.Rate, want)
	}
	check := func(what string, s cost.Estimate, k int, devices []DeviceModel, want float64) {
		t.Helper()
		if got, err := Seconds(s, k, devices); err != nil || math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: got %g s and error %v, want %g s", what, got, err, want)
		}
	}
	s := cost.Estimate{Work: kernel.Work(), Kernels: kernel}
	check("a stage", s, 4, []DeviceModel{d}, 4*one)
	slow := d
	slow.Rate /= 3
	check("a slow device", s, 1, []DeviceModel{slow}, 3*one)
	check("a stage that does not know its kernels", cost.Estimate{Work: 150}, 1, []DeviceModel{d}, one)
	shape := sequence.Shape{Batch: 2, Frames: 4, Positions: 16, Heads: 4, HeadSize: 8}
	costs := sequence.Costs{Local: 3, Project: 2, Score: 1}
	before := cost.Kernels{Calls: 6}
	all := before
	all.Add(kernel, 5)
	s = cost.Estimate{Work: all.Work(), Kernels: all, Split: &cost.Split{Shape: shape, Pairs: 2, Steps: 5, Costs: costs, Kernels: kernel,
		Bytes: 4}}
	check("a denoiser", s, 3, []DeviceModel{d}, 3*5*one)
	d.Link, d.Host = math.Inf(1), math.Inf(1)
	check("two devices", s, 1, []DeviceModel{d, d}, 5*one/2.)
}
