package devices

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/cost"
)

// TestMeasureAPause: of several calls, only the fourth takes its true time of 1 ms; in the others the machine pauses for a minute. The clock
// for real time takes the shortest.
func TestMeasureAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		seconds, err := repeat(cpu.New(1), wall, func() {
			if calls++; calls == 4 {
				time.Sleep(time.Millisecond)
			} else {
				time.Sleep(time.Minute)
			}
		})
		if err != nil || seconds != 0.001 {
			t.Errorf("got %v s, %v; want 0.001 s", seconds, err)
		}
	})
}

// TestMeasureLostTime: each call takes 2 ms of processor time, of which the system once reports only 1 ms. The clock for processor time
// takes the middle value, so the processor does not look twice as fast.
func TestMeasureLostTime(t *testing.T) {
	reported, calls := time.Duration(0), 0
	c := clock{func() time.Duration { return reported }, middle, 0}
	seconds, err := repeat(cpu.New(1), c, func() {
		if calls++; calls == 3 {
			reported += time.Millisecond
		} else {
			reported += 2 * time.Millisecond
		}
		time.Sleep(time.Millisecond)
	})
	if err != nil || seconds != 0.002 {
		t.Errorf("got %v s, %v; want 0.002 s", seconds, err)
	}
}

// TestMeasureShortCalls: a clock that moves every 4 ms measures calls of 1 ms right.
func TestMeasureShortCalls(t *testing.T) {
	var passed time.Duration
	c := clock{func() time.Duration { return passed.Truncate(4 * time.Millisecond) }, middle, 8 * time.Millisecond}
	seconds, err := repeat(cpu.New(1), c, func() { passed += time.Millisecond })
	if err != nil || seconds != 0.001 {
		t.Errorf("got %v s, %v; want 0.001 s", seconds, err)
	}
}

// TestMeasure: every kernel that was asked for has a price that a processor can have, and the others have none. A second call measures
// only the kernels that are new.
func TestMeasure(t *testing.T) {
	var work cost.Kernels
	for op := range work.Products {
		work.Products[op][kernels.F32].FLOP = 1
	}
	setup := Setup{Device: "cpu", Cores: 1, Workers: 77}
	s, err := Measure(cpu.New(1), setup, work)
	if err != nil {
		t.Fatal(err)
	}
	within := func(what string, got, least, most float64) {
		t.Helper()
		if got < least || got > most {
			t.Errorf("%s: %g, want %g to %g", what, got, least, most)
		}
	}
	for op := range work.Products {
		within("FLOP/s of "+kernels.Op(op).String(), 1/s.Price.Products[op][kernels.F32].FLOP, 1e8, 1e14)
		within("price of a product nobody asked for", s.Price.Products[op][kernels.BF16].FLOP, 0, 0)
	}
	within("elements/s", 1/s.Price.Elements, 1e6, 1e13)
	within("price of a row", s.Price.Rows, 0, 1e-4)
	within("calls/s", 1/s.Price.Calls, 1e2, 1e9)
	within("bytes/s", s.Bandwidth, 1e7, 1e13)
	work = cost.Kernels{}
	work.Products[kernels.OpLinear][kernels.BF16].FLOP = 1
	again, err := Measure(cpu.New(1), setup, work)
	bf16 := again.Price.Products[kernels.OpLinear][kernels.BF16].FLOP
	within("FLOP/s of bf16", 1/bf16, 1e8, 1e14)
	again.Price.Products[kernels.OpLinear][kernels.BF16] = cost.Product{}
	if err != nil || again != s {
		t.Errorf("the second call gave %+v, %v; want the same as before for the known kernels, %+v", again, err, s)
	}
}

// TestPrices: the times of a large and of a small product give two prices, per FLOP and per element. The price of an element is at least 0,
// even if the small product was very fast, and the price of a FLOP stays above 0, even if it was slow.
func TestPrices(t *testing.T) {
	work := [2]cost.Product{{FLOP: 1000, Elements: 10}, {FLOP: 10, Elements: 10}}
	for _, c := range []struct {
		seconds [2]float64 // of the large and of the small product
		want    cost.Product
	}{
		{[2]float64{1020, 30}, cost.Product{FLOP: 1, Elements: 2}},
		{[2]float64{1000, 5}, cost.Product{FLOP: 1}},
		{[2]float64{1000, 5000}, cost.Product{FLOP: 0.5, Elements: 50}},
	} {
		got := prices(work, c.seconds)
		if math.Abs(got.FLOP-c.want.FLOP) > 1e-9 || math.Abs(got.Elements-c.want.Elements) > 1e-9 {
			t.Errorf("seconds %v: got prices %+v, want %+v", c.seconds, got, c.want)
		}
	}
}
