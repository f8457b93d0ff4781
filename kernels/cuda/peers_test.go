//go:build cuda && linux

package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// across copies a tensor to another device, whole and as a transposed part of it, and compares. It returns the number of bytes copied.
func across(t *testing.T, from, to kernels.Backend, dt kernels.DType, rows, cols int) (bytes int64) {
	t.Helper()
	defer from.Scope()()
	defer to.Scope()()
	src, values := from.Alloc(dt, rows, cols), make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(rand.IntN(251)) // exact in every type
	}
	from.Upload(src, values)
	if err := from.Wait(); err != nil {
		t.Error(err)
		return 0
	}
	whole, part := to.Alloc(kernels.F32, rows, cols), to.Alloc(dt, cols/2, rows-1)
	to.Copy(whole, src)
	to.Copy(part, src.Permute(1, 0).Narrow(0, 1, cols/2).Narrow(1, 1, rows-1))
	for _, c := range []struct {
		got  kernels.Tensor
		want func(i int) float32
	}{
		{whole, func(i int) float32 { return values[i] }},
		{part, func(i int) float32 { return values[(1+i%(rows-1))*cols+1+i/(rows-1)] }},
	} {
		got := make([]float32, c.got.Len())
		if err := to.Download(got, c.got); err != nil {
			t.Error(err)
			return 0
		}
		for i, x := range got {
			if x != c.want(i) {
				t.Errorf("%v %v: element %d is %v, want %v", dt, c.got.Shape, i, x, c.want(i))
				return 0
			}
		}
		bytes += int64(len(got) * dt.Size())
	}
	return bytes
}

// TestPeers: a backend reads tensors of another device directly if it can access its memory; nothing passes through the host.
func TestPeers(t *testing.T) {
	device(t, 0)
	if list, _ := cuda.Devices(); len(list) < 2 {
		t.Skip("needs two devices")
	}
	before := cuda.Staged()
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
		across(t, device(t, 0), device(t, 1), dt, 60, 70)
	}
	if n := cuda.Staged() - before; n > 0 {
		t.Skipf("%d bytes went through the host, because these devices cannot access each other's memory", n)
	}
}

// isolatedDevices returns device n of the fake driver and the next one, which cannot access each other's memory.
func isolatedDevices(t *testing.T, n int) (a, b kernels.Backend) {
	t.Helper()
	onFake(t)
	t.Setenv("FAKE_DEVICES", fmt.Sprint(devices))
	t.Setenv("FAKE_PEERS", "0")
	return fresh(t, n, cuda.Options{}), fresh(t, n+1, cuda.Options{})
}

// TestStaged: data for a device that cannot access the source's memory passes through the host in pieces, every byte once. This works
// in both directions at the same time, and with several other devices.
func TestStaged(t *testing.T) {
	a, b := isolatedDevices(t, 2)
	before, want := cuda.Staged(), int64(0)
	for _, shape := range [][2]int{{3, 5}, {1024, 1024}, {1025, 1024}, {2048, 1500}} { // from a part of a block of 4 MiB to three blocks
		want += across(t, a, b, kernels.F32, shape[0], shape[1])
	}
	want += across(t, a, b, kernels.BF16, 1001, 2003)
	if n := cuda.Staged() - before; n != want {
		t.Errorf("%d bytes went through the host, want %d", n, want)
	}
	var all sync.WaitGroup
	for range 3 {
		for _, way := range [][2]int{{2, 3}, {3, 2}} {
			from, to := fresh(t, way[0], cuda.Options{}), fresh(t, way[1], cuda.Options{})
			all.Go(func() { across(t, from, to, kernels.F16, 1500, 2100) })
		}
	}
	all.Wait()
}

// TestTooManyPeers: if a device has mapped too many peers, data of further peers passes through the host.
func TestTooManyPeers(t *testing.T) {
	for _, code := range []string{"711", "217"} {
		unused(t)
		to := unused(t)
		a, b, before := fresh(t, to-1, cuda.Options{}), fresh(t, to, cuda.Options{}), cuda.Staged()
		t.Setenv("FAKE_FAIL", "cuCtxEnablePeerAccess:1:"+code)
		for range 2 { // the second copy must not try to map the peer again, because it would succeed
			want := before + across(t, a, b, kernels.F32, 30, 40)
			if n := cuda.Staged(); n != want {
				t.Errorf("%s: %d bytes went through the host, want %d", code, n-before, want-before)
			}
			before = want
		}
	}
}

// TestStagedBesideOtherWork: a copy does not overwrite memory of the arena that earlier work still uses.
func TestStagedBesideOtherWork(t *testing.T) {
	from, to := isolatedDevices(t, 2)
	const n = 3 << 20
	src, values := from.Alloc(kernels.F32, n), make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	from.Upload(src, values)
	if err := from.Wait(); err != nil {
		t.Fatal(err)
	}
	sum := to.Alloc(kernels.F32, n)
	to.Upload(sum, make([]float32, n))
	for range 3 { // each copy uses the memory of the previous one
		end := to.Scope()
		x := to.Alloc(kernels.F32, n)
		to.Copy(x, src)
		to.Binary(sum, sum, x, kernels.Add)
		end()
	}
	got := make([]float32, n)
	if err := to.Download(got, sum); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != 3*values[i] {
			t.Fatalf("element %d is %v, want %v", i, x, 3*values[i])
		}
	}
}

// TestStagedFails: an error on either device is reported by the device that copies. After a device was opened again, copies to it work
// again.
func TestStagedFails(t *testing.T) {
	for _, fail := range []string{"cuMemHostAlloc:2:2", "cuMemcpyDtoHAsync_v2:2:214!", "cuMemcpyHtoDAsync_v2:3:700!"} {
		t.Run(fail, func(t *testing.T) {
			unused(t)
			from, to := isolatedDevices(t, unused(t)-1) // there is no route between them yet
			src := from.Alloc(kernels.F32, 3<<20)
			from.Upload(src, make([]float32, 3<<20))
			if err := from.Wait(); err != nil {
				t.Fatal(err)
			}
			dst := to.Alloc(kernels.F32, 3<<20)
			if err := to.Wait(); err != nil {
				t.Fatal(err)
			}
			t.Setenv("FAKE_FAIL", fail)
			to.Copy(dst, src)
			err := to.Wait()
			t.Setenv("FAKE_FAIL", "")
			if err == nil || fault.ClassOf(err) != fault.ClassRetry {
				t.Errorf("got error %v of class %v, want class retry", err, fault.ClassOf(err))
			}
			across(t, fresh(t, devices-2, cuda.Options{}), fresh(t, devices-1, cuda.Options{}), kernels.F32, 1100, 1100)
		})
	}
}
