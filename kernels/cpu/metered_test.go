package cpu_test

import (
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
)

// everyFamily runs one or two operations of each family on be and returns the expected counts.
func everyFamily(t *testing.T, be kernels.Backend) kernels.Usage {
	t.Helper()
	alloc := func(shape ...int) kernels.Tensor { return be.Alloc(kernels.F32, shape...) }
	x, y, w, bias := alloc(2, 5, 4), alloc(2, 5, 6), alloc(6, 4), alloc(4)
	be.Upload(x, make([]float32, 40))
	be.Upload(w, make([]float32, 24))
	be.Upload(bias, make([]float32, 4))
	be.Linear(y, x, w, kernels.Epilogue{Gate: bias.Narrow(0, 0, 1).Expand(2, 5, 6)}) // 4 bytes of the gate
	be.Binary(x, x, bias.Expand(2, 5, 4), kernels.Add)
	be.Unary(x, x, kernels.SiLU)
	be.Norm(x, x, kernels.NormSpec{Eps: 1})
	be.Norm(x, x, kernels.NormSpec{Kind: kernels.RMSNorm, Cos: y.Narrow(2, 0, 2), Sin: y.Narrow(2, 2, 2)})
	be.Rope(x, x, x.Narrow(2, 0, 2), x.Narrow(2, 2, 2))
	q := x.Reshape(2, 5, 1, 4)
	be.Attention(alloc(2, 5, 1, 4), q, q, q, kernels.AttentionSpec{KeyLens: []int{1, 3}})
	image := x.Reshape(1, 2, 5, 4)
	be.Conv(alloc(1, 2, 5, 3), image, w.Narrow(0, 0, 3).Reshape(3, 4, 1, 1), kernels.ConvSpec{})
	be.Copy(alloc(2, 5, 4), x)
	be.Copy(alloc(5, 2, 4), x.Permute(1, 0, 2)) // by rows
	be.Gather(alloc(3, 4), w, []int32{1, 2, 3})
	if err := be.Download(make([]float32, 40), x); err != nil {
		t.Fatal(err)
	}
	for _, op := range []kernels.Op{kernels.OpDecode, kernels.OpResize} {
		be.Capabilities().Count(op, kernels.Count{Calls: 3, Time: 1, Bytes: 7})
	}
	var want kernels.Usage
	fp32 := func(flop float64, elements int64) (typed [kernels.ProductTypes]kernels.Product) {
		typed[kernels.F32] = kernels.Product{FLOP: flop, Elements: elements}
		return typed
	}
	want[kernels.OpTransfer] = kernels.Count{Calls: 4, Bytes: 4 * (40 + 24 + 4 + 40), Elements: 40 + 24 + 4 + 40}
	want[kernels.OpLinear] = kernels.Count{Calls: 1, FLOP: 2 * 60 * 4, Typed: fp32(2*60*4, 60+40+24+1), Bytes: 4 * (60 + 40 + 24 + 1), Elements: 60 + 40 + 24 + 1}
	want[kernels.OpElementwise] = kernels.Count{Calls: 2, Bytes: 4 * (40 + 40 + 4 + 40 + 40), Elements: 40 + 40 + 4 + 40 + 40}
	want[kernels.OpNorm] = kernels.Count{Calls: 2, Bytes: 4 * (80 + 80 + 40), Elements: 80 + 80 + 40, Rows: 2 * 10}
	want[kernels.OpRope] = kernels.Count{Calls: 1, Bytes: 4 * (80 + 40), Elements: 80 + 40}
	want[kernels.OpAttention] = kernels.Count{Calls: 1, FLOP: 4 * 40 * 2, Typed: fp32(4*40*2, 160), Bytes: 4 * 160, Elements: 160}
	want[kernels.OpConv] = kernels.Count{Calls: 1, FLOP: 2 * 30 * 4, Typed: fp32(2*30*4, 30+40+12), Bytes: 4 * (30 + 40 + 12), Elements: 30 + 40 + 12}
	want[kernels.OpCopy] = kernels.Count{Calls: 3, Bytes: 4 * (80 + 80 + 24), Elements: 80 + 80 + 24, Rows: 10}
	want[kernels.OpDecode] = kernels.Count{Calls: 3, Bytes: 7}
	want[kernels.OpResize] = want[kernels.OpDecode]
	return want
}

// TestMeteredCounts: Metered counts calls, arithmetic, bytes and elements of each family of operations, and measures a time.
func TestMeteredCounts(t *testing.T) {
	be := kernels.NewMetered(cpu.New(1))
	want := everyFamily(t, be)
	got := be.Usage()
	for op := range got {
		if got[op].Time <= 0 {
			t.Errorf("%v has the time %v, want more than 0", kernels.Op(op), got[op].Time)
		}
		got[op].Time = 0
		if got[op] != want[op] {
			t.Errorf("%v: got %+v, want %+v", kernels.Op(op), got[op], want[op])
		}
	}
}

// TestMeteredAsynchronous: on a device that computes later, Metered reports the times of the device after Wait.
func TestMeteredAsynchronous(t *testing.T) {
	be := kernels.NewMetered(kerneltest.Deferred(cpu.New(1)))
	x := be.Alloc(kernels.F32, 300, 300)
	be.Upload(x, make([]float32, 300*300))
	y := be.Alloc(kernels.F32, 300, 300)
	for range 20 {
		be.Linear(y, x, x, kernels.Epilogue{})
	}
	if u := be.Usage()[kernels.OpLinear]; u.Calls != 20 || u.Time != 0 {
		t.Errorf("before Wait: got %+v, want 20 calls without a time", u)
	}
	began := time.Now()
	if err := be.Wait(); err != nil {
		t.Fatal(err)
	}
	waited := time.Since(began)
	if took := be.Usage()[kernels.OpLinear].Time; took <= 0 || took > waited {
		t.Errorf("Metered says that 20 products took %v, but Wait took %v", took, waited)
	}
}

// TestMeteredPassesCapabilitiesOn: Metered has the capabilities of its device, except Time, which it uses itself and which cannot be nested.
func TestMeteredPassesCapabilitiesOn(t *testing.T) {
	inner := kerneltest.Deferred(kerneltest.Card(cpu.New(1), 1<<20))
	can, behind := inner.Capabilities(), kernels.NewMetered(inner).Capabilities()
	if can.Refiller == nil || behind.Refiller != can.Refiller {
		t.Errorf("the device has the Refiller %v, Metered has %v", can.Refiller, behind.Refiller)
	}
	if can.Time == nil || behind.Time != nil {
		t.Error("the device has no Time, or Metered has one")
	}
	if plain := kernels.NewMetered(cpu.New(1)).Capabilities(); plain.Passing == nil || plain.Refiller != nil {
		t.Error("Metered over a CPU has no Passing, or has a Refiller")
	}
}

// TestMeteredAllocatesNothing: a call through Metered allocates no more Go memory than the same call without it.
func TestMeteredAllocatesNothing(t *testing.T) {
	bare := cpu.New(1)
	be := kernels.NewMetered(bare)
	x, y := be.Alloc(kernels.F32, 8, 16), be.Alloc(kernels.F32, 8, 16)
	be.Upload(x, make([]float32, 8*16))
	op := func(be kernels.Backend) float64 {
		return testing.AllocsPerRun(100, func() { be.Unary(y, x, kernels.SiLU) })
	}
	if alone, metered := op(bare), op(be); metered > alone {
		t.Errorf("a call allocates %g times with Metered, %g times without", metered, alone)
	}
}

// BenchmarkMetered measures the cost of counting: the difference to the same call without Metered.
func BenchmarkMetered(b *testing.B) {
	bare := cpu.New(1)
	x, y, w := bare.Alloc(kernels.F32, 4, 4), bare.Alloc(kernels.F32, 4, 4), bare.Alloc(kernels.F32, 4, 4)
	bare.Upload(x, make([]float32, 16))
	bare.Upload(w, make([]float32, 16))
	for name, be := range map[string]kernels.Backend{"bare": bare, "metered": kernels.NewMetered(bare)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				be.Linear(y, x, w, kernels.Epilogue{})
			}
		})
	}
}
