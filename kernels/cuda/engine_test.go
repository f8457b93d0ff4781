//go:build cuda && linux

package cuda_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
)

// TestDevices: each device has an index, a name, a UUID of its own, memory and a PCI address. Driver and libraries have versions.
func TestDevices(t *testing.T) {
	b := device(t, 0)
	list, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, d := range list {
		if d.Index != i || d.Name == "" || len(d.UUID) != len("GPU-")+36 || seen[d.UUID] || d.Memory <= 0 || d.Major < 7 ||
			d.Multiprocessors < 1 || len(d.PCI) != len("0000:00:00.0") {
			t.Errorf("a fact is missing or wrong in device %d: %+v", i, d)
		}
		seen[d.UUID] = true
	}
	if b.Class() != list[0].Class() {
		t.Errorf("the backend has class %s, its device %s", b.Class(), list[0].Class())
	}
	if v, err := cuda.DriverVersion(); err != nil || v == "" {
		t.Errorf("got driver version %q, %v", v, err)
	}
	if libs := cuda.Libraries(); len(libs) == 0 || libs[0].Path == "" {
		t.Errorf("got libraries %+v, want the driver with its path", libs)
	}
	if _, err := cuda.New(1<<20, cuda.Options{}); err == nil {
		t.Error("a device that does not exist was opened")
	}
}

// TestLargeTransfers: data that is larger than a page-locked block is copied in pieces. The caller may change the data as soon as Upload
// has returned.
func TestLargeTransfers(t *testing.T) {
	b := device(t, 0)
	defer b.Scope()()
	const n = 3<<20 + 17
	want := make([]float32, n)
	for i := range want {
		want[i] = rand.Float32()
	}
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
		x, src, got := b.Alloc(dt, n), slices.Clone(want), make([]float32, n)
		b.Upload(x, src)
		clear(src)
		if err := b.Download(got, x); err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if dt == kernels.BF16 {
				w = kernels.FromBF16(kernels.ToBF16(w))
			}
			if got[i] != w {
				t.Fatalf("%v: element %d is %v, want %v", dt, i, got[i], w)
			}
		}
	}
}

// TestSmallTransfers: small data is sent without a page-locked block. It is kept until the device has read it, even if the device is late and
// the caller has no reference to it any more. The test makes garbage in order to have its memory used again.
func TestSmallTransfers(t *testing.T) {
	b := device(t, 0)
	defer b.Scope()()
	const n = 4 << 10
	var xs []kernels.Tensor
	for i := range 100 {
		x, values := b.Alloc(kernels.F32, n), make([]float32, n)
		for j := range values {
			values[j] = float32(i)
		}
		b.Upload(x, values)
		xs = append(xs, x)
	}
	var others [][]float32
	for range 3 {
		runtime.GC()
		for range 200 {
			x := make([]float32, n)
			x[0], x[n-1] = -1, -1
			others = append(others, x)
		}
	}
	for i, x := range xs {
		got := make([]float32, n)
		if err := b.Download(got, x); err != nil || slices.Min(got) != float32(i) || slices.Max(got) != float32(i) {
			t.Fatalf("upload %d gives numbers from %v to %v (%v), want %d", i, slices.Min(got), slices.Max(got), err, i)
		}
	}
	runtime.KeepAlive(others)
}

// TestForeignTensors: an operation on a tensor of another device is an error. Only Copy may read one.
func TestForeignTensors(t *testing.T) {
	a, b := device(t, 0), device(t, 1)
	if a.Device() == b.Device() {
		t.Skip("needs two devices")
	}
	x := a.Alloc(kernels.F32, 3)
	b.Unary(b.Alloc(kernels.F32, 3), x, kernels.SiLU)
	if err := b.Wait(); err == nil {
		t.Error("the tensor of another device was accepted")
	}
}

// TestManyBackends: several backends that work on two devices at the same time give the results of a single one.
func TestManyBackends(t *testing.T) {
	compute := func(b kernels.Backend, w kernels.Tensor) ([]float32, error) {
		defer b.Scope()()
		x, y := b.Alloc(kernels.F32, 20, 16), b.Alloc(kernels.F32, 20, 16)
		values := make([]float32, 320)
		for i := range values {
			values[i] = float32(i%17) / 16
		}
		b.Upload(x, values)
		for range 10 {
			b.Linear(y, x, w, kernels.Epilogue{Act: kernels.SiLU, Residual: x})
			b.Copy(x, y)
		}
		err := b.Download(values, x)
		return values, err
	}
	weights := func(b kernels.Backend) kernels.Tensor {
		data := make([]byte, 16*16*4)
		for i := range data {
			data[i] = byte(i%7) | 0x30
		}
		w, err := b.Weights(kernels.F32, []int{16, 16}, data)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := device(t, 0)
	want, err := compute(first, weights(first))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for index := range 2 {
		w := weights(device(t, index)) // shared by all backends of the device
		for range 3 {
			b := device(t, index)
			all.Go(func() {
				for range 5 {
					if got, err := compute(b, w); err != nil || !slices.Equal(got, want) {
						t.Errorf("device %s: got %v..., %v; want %v...", b.Device(), got[:4], err, want[:4])
					}
				}
			})
		}
	}
	all.Wait()
}

// TestSteadyMemory: after two turns of a loop, further turns allocate no memory of the device: they succeed although an allocation would fail.
// Memory without references is freed by the garbage collector.
func TestSteadyMemory(t *testing.T) {
	index := unused(t)
	free := func() int64 {
		n, _, err := cuda.MemInfo(index)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := free()
	func() {
		b := fresh(t, index, cuda.Options{})
		turn := func() {
			defer b.Scope()()
			for range 5 {
				x := b.Alloc(kernels.F32, 3<<20)
				b.Copy(x, x)
				func() {
					defer b.Scope()()
					b.Alloc(kernels.F32, 8<<20)
				}()
			}
			if err := b.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		turn()
		turn()
		t.Setenv("FAKE_FAIL", "cuMemAlloc_v2:1:2")
		turn()
		turn()
		t.Setenv("FAKE_FAIL", "")
		// 5 tensors of 3 Mi float32, and one of 8 Mi, exist at the same time.
		if peak := b.Capabilities().Peak(); peak != (5*3+8)<<22 {
			t.Errorf("the peak is %d bytes, want %d", peak, (5*3+8)<<22)
		}
		b.Alloc(kernels.F32, 1<<20) // outside of any scope
		if free() >= before {
			t.Error("the device has as much free memory as before the backend")
		}
	}()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if runtime.GC(); free() >= before {
			return
		}
	}
	t.Errorf("%d bytes were not freed within a minute", before-free())
}

// TestTime: the times of operations are reported by Wait, not before. Metered uses them.
func TestTime(t *testing.T) {
	b := device(t, 0)
	defer b.Scope()()
	x := b.Alloc(kernels.F32, 300, 300)
	var times []time.Duration
	for range 3 {
		end := b.Capabilities().Time(func(d time.Duration) { times = append(times, d) })
		b.Unary(x, x, kernels.SiLU)
		end()
	}
	if len(times) > 0 {
		t.Errorf("times %v were reported before Wait", times)
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(times) != 3 || slices.Min(times) <= 0 || slices.Max(times) > time.Minute {
		t.Errorf("got times %v, want 3 between 0 and a minute", times)
	}
	m := kernels.NewMetered(b)
	m.Unary(x, x, kernels.SiLU)
	if err := m.Wait(); err != nil || m.Usage()[kernels.OpElementwise].Time <= 0 {
		t.Errorf("Metered has no time of the elementwise kernels: %v, %v", fmt.Sprint(m.Usage()), err)
	}
}

// TestRefill: Refill replaces a weight. Operations before it read the old values, and operations after ready the new ones. Operations between
// them run at the same time and must not use the weight.
func TestRefill(t *testing.T) {
	b := device(t, 0)
	defer b.Scope()()
	const n = 5 << 20 // more than fits the page-locked blocks, so that the first is read before the last is filled
	weight := func(x byte) func() []byte { return func() []byte { return bytes.Repeat([]byte{x}, 2*n) } }
	w, err := b.Weights(kernels.BF16, []int{n}, weight(0x3f)())
	if err != nil {
		t.Fatal(err)
	}
	before, beside, after := b.Alloc(kernels.BF16, n), b.Alloc(kernels.BF16, n), b.Alloc(kernels.BF16, n)
	b.Copy(before, w)
	ready := b.Capabilities().Refiller.Refill(w, weight(0x40))
	b.Copy(beside, before)
	ready()
	b.Copy(after, w)
	got := make([]float32, n)
	for name, c := range map[string]struct {
		x    kernels.Tensor
		bits uint16 // of each element
	}{"before": {before, 0x3f3f}, "beside": {beside, 0x3f3f}, "after": {after, 0x4040}} {
		if err := b.Download(got, c.x); err != nil {
			t.Fatal(err)
		}
		if want := kernels.FromBF16(c.bits); slices.Min(got) != want || slices.Max(got) != want {
			t.Errorf("%s: got numbers from %v to %v, want %v", name, slices.Min(got), slices.Max(got), want)
		}
	}
	b.Capabilities().Refiller.Refill(w, func() []byte { return weight(1)()[:n] })()
	if err := b.Wait(); err == nil {
		t.Error("Refill with half of the bytes gave no error")
	}
}

// TestRelease: Release frees the memory of a weight, and of the forms of it that were packed for convolutions, at once. Other weights do not
// change, and using a released weight is an error. The test counts bytes on the fake driver only, because a GPU allocates memory in larger
// pieces and other programs use it, too.
func TestRelease(t *testing.T) {
	b, index := device(t, 0), 0
	counted := emulated()
	if counted {
		index = unused(t)
		b = fresh(t, index, cuda.Options{})
	}
	defer b.Scope()()
	free := func() int64 {
		t.Helper()
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
		n, _, err := cuda.MemInfo(index)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	x, y := b.Alloc(kernels.F32, 1, 8, 8, 32), b.Alloc(kernels.F32, 1, 8, 8, 32)
	b.Upload(x, make([]float32, x.Len()))
	const n = 32 * 32 * 9
	weight := func() kernels.Tensor {
		t.Helper()
		w, err := b.Weights(kernels.F32, []int{32, 32, 3, 3}, make([]byte, 4*n))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	conv := func(w kernels.Tensor) {
		b.Conv(y, x, w, kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1})
	}
	kept := weight()
	conv(kept)
	before := free()
	gone := weight()
	conv(gone)
	if now := free(); counted && now >= before {
		t.Fatalf("%d bytes are free, want fewer than the %d before the second weight", now, before)
	}
	b.Capabilities().Release(gone)
	b.Capabilities().Release(gone) // a second call does nothing
	conv(kept)
	if now := free(); counted && now != before {
		t.Errorf("after Release, %d bytes are free, want the %d before the second weight", now, before)
	}
	conv(gone)
	if err := b.Wait(); err == nil {
		t.Error("a released weight was used without an error")
	}
}
