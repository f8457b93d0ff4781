//go:build cuda && linux

package cuda_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// onFake skips a test unless the driver is the fake one of kernels/cuda/fake, because only this injects errors. FAKE_FAIL=CALL:N:CODE makes
// the Nth call of a function of the driver fail. With ! behind the code, the error also ends the context. With ~MS in place of the code, the
// call takes so many milliseconds.
func onFake(t *testing.T) {
	t.Helper()
	device(t, 0)
	if !emulated() {
		t.Skip("needs the fake driver")
	}
}

// emulated reports whether the driver is the fake one.
func emulated() bool {
	list, err := cuda.Devices()
	return err == nil && strings.HasPrefix(list[0].Name, "emulated")
}

// devices is the number of devices that tests have used so far.
var devices = 6

// unused returns a device of the fake driver that no test has used, so that finalizers of other tests free nothing on it.
func unused(t *testing.T) int {
	t.Helper()
	onFake(t)
	devices++
	t.Setenv("FAKE_DEVICES", fmt.Sprint(devices))
	return devices - 1
}

// fresh returns a new backend on a device. Its context is valid even if an earlier test has ended the device's context.
func fresh(t *testing.T, index int, o cuda.Options) kernels.Backend {
	t.Helper()
	b, err := cuda.New(index, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// work computes something on b and returns the result of Wait.
func work(b kernels.Backend) error {
	defer b.Scope()()
	x, y := b.Alloc(kernels.F32, 40, 30), b.Alloc(kernels.BF16, 30, 40)
	b.Upload(x, make([]float32, 1200))
	for range 50 {
		b.Unary(x, x, kernels.SiLU)
		b.Copy(y, x.Permute(1, 0))
	}
	return b.Wait()
}

// TestInjectedErrors: the class and the marks of the error for each error code of the driver. A backend keeps its first error. The next backend
// works, in a new context if the error has ended the old one.
func TestInjectedErrors(t *testing.T) {
	onFake(t)
	for _, c := range []struct {
		name, fail  string
		class       fault.Class
		memory      bool   // the error is marked as out of memory
		lost        bool   // the error is marked as a lost device
		ended       bool   // the error ends the context, so the next backend opens a new one
		text        string // part of the error
		whileOpened bool   // the error comes when the backend is opened
	}{
		{name: "a bad handle", fail: "cuLaunchKernel:7:400", class: fault.ClassFatal,
			text: "cuLaunchKernel: CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle"},
		{name: "wrong arguments", fail: "cuLaunchKernel:1:1", class: fault.ClassFatal, text: "CUDA_ERROR_INVALID_VALUE"},
		{name: "no page-locked memory", fail: "cuMemHostAlloc:1:2", class: fault.ClassRetry, memory: true,
			text: "cuMemHostAlloc"},
		{name: "memory errors", fail: "cuLaunchKernel:9:214!", class: fault.ClassRetry, lost: true, ended: true,
			text: "CUDA_ERROR_ECC_UNCORRECTABLE"},
		{name: "an illegal address", fail: "cuStreamSynchronize:1:700!", class: fault.ClassRetry, ended: true,
			text: "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{name: "a stream that cannot be made", fail: "cuStreamCreate:1:2", class: fault.ClassRetry, memory: true,
			text: "open cuda:0", whileOpened: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := fresh(t, 0, cuda.Options{})
			b := fresh(t, 0, cuda.Options{})
			t.Setenv("FAKE_FAIL", c.fail)
			var err error
			if c.whileOpened {
				_, err = cuda.New(0, cuda.Options{})
			} else {
				err = uploadAndWork(b)
			}
			if err == nil || fault.ClassOf(err) != c.class || fault.IsOutOfMemory(err) != c.memory ||
				fault.IsDeviceLost(err) != c.lost || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got error %v of class %v, memory %v, lost %v; want %q of class %v, %v, %v", err, fault.ClassOf(err),
					fault.IsOutOfMemory(err), fault.IsDeviceLost(err), c.text, c.class, c.memory, c.lost)
			}
			if !c.whileOpened {
				if again := b.Wait(); again == nil || again.Error() != err.Error() {
					t.Errorf("a second Wait returns %v, want the first error %v", again, err)
				}
			}
			if err := work(before); (err != nil) != c.ended {
				t.Errorf("an earlier backend of the device: got error %v, want one: %v", err, c.ended)
			}
			next := fresh(t, 0, cuda.Options{})
			if err := work(next); err != nil {
				t.Errorf("the next backend: got error %v", err)
			}
			if (next.Device() != before.Device()) != c.ended {
				t.Errorf("the device is called %s before the error and %s after it, want another name: %v", before.Device(), next.Device(), c.ended)
			}
		})
	}
}

// uploadAndWork uploads data that is large enough for a page-locked block, and then works.
func uploadAndWork(b kernels.Backend) error {
	func() {
		defer b.Scope()()
		x := b.Alloc(kernels.F32, 1<<16)
		b.Upload(x, make([]float32, 1<<16))
	}()
	return work(b)
}

// TestMemoryOfADeviceThatEnded: using memory of an ended context is an error; the memory is not read.
func TestMemoryOfADeviceThatEnded(t *testing.T) {
	onFake(t)
	b := fresh(t, 0, cuda.Options{})
	w, err := b.Weights(kernels.F32, []int{2}, make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_FAIL", "cuLaunchKernel:1:719!")
	if err := work(b); err == nil {
		t.Fatal("the injected error did not come")
	}
	for _, index := range []int{0, 1} {
		next := fresh(t, index, cuda.Options{})
		next.Copy(next.Alloc(kernels.F32, 2), w)
		if err := next.Wait(); err == nil || !strings.Contains(err.Error(), "copy") {
			t.Errorf("device %d: a copy of a weight of the ended context: got %v, want an error of copy", index, err)
		}
	}
	if _, err := b.Weights(kernels.F32, []int{2}, make([]byte, 8)); err == nil {
		t.Error("Weights in the ended context gave no error")
	}
}

// TestOutOfMemory: allocating more than the device has (here 100 MB), or more than the limit of the backend (40 MiB), gives an error that is
// marked as out of memory, after which smaller batches are tried.
func TestOutOfMemory(t *testing.T) {
	index := unused(t)
	t.Setenv("FAKE_MEMORY", "100000000")
	for name, b := range map[string]kernels.Backend{
		"device": fresh(t, index, cuda.Options{}), "limit": fresh(t, index, cuda.Options{Memory: 40 << 20}),
	} {
		end := b.Scope()
		b.Alloc(kernels.F32, 5<<20)
		if err := b.Wait(); err != nil {
			t.Errorf("%s: 20 MiB: %v", name, err)
		}
		b.Alloc(kernels.F32, 30<<20)
		if err := b.Wait(); !fault.IsOutOfMemory(err) || fault.ClassOf(err) != fault.ClassRetry {
			t.Errorf("%s: 120 MiB more: got error %v, want out of memory", name, err)
		}
		end()
	}
}

// TestLessMemory: if there is no memory for a large chunk, the arena (which allocates the backend's tensors) allocates a chunk that is just
// large enough.
func TestLessMemory(t *testing.T) {
	onFake(t)
	b := fresh(t, 1, cuda.Options{})
	t.Setenv("FAKE_FAIL", "cuMemAlloc_v2:1:2")
	if err := work(b); err != nil {
		t.Error(err)
	}
}

// TestWithoutCUDA: the error says why CUDA cannot be used. Each case runs in another process, because a process opens the driver only once.
func TestWithoutCUDA(t *testing.T) {
	if os.Getenv("WITHOUT_CUDA") != "" {
		_, err := cuda.Devices()
		if _, second := cuda.New(0, cuda.Options{}); second == nil {
			t.Error("New gave no error")
		}
		os.Stdout.WriteString("why: " + err.Error() + "\n")
		return
	}
	onFake(t)
	for _, c := range []struct{ variable, text string }{
		{"FAKE_VERSION=11040", "is the driver of CUDA 11.4, 12.0 or newer is needed: update the NVIDIA driver"},
		{"FAKE_DEVICES=0", "does not start: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected: is CUDA_VISIBLE"},
		{"FAKE_FAIL=cuInit:1:802", "CUDA_ERROR_SYSTEM_NOT_READY (802): system not yet initialized: GPUs behind NVSwitch"},
		{"FAKE_FAIL=cuInit:1:33", "does not start: cuInit: CUDA error 33"},
		{"LATENTBEAM_LIBCUDA=/nowhere/libcuda.so.1", "/nowhere/libcuda.so.1 not found"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutCUDA$")
		cmd.Env = append(os.Environ(), "WITHOUT_CUDA=1", c.variable)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "why: CUDA is not available: ") ||
			!strings.Contains(string(out), c.text) {
			t.Errorf("%s: %v, %s", c.variable, err, out)
		}
	}
}

// TestOldDevice: a GPU without kernels gives an error with its name.
func TestOldDevice(t *testing.T) {
	onFake(t)
	t.Setenv("FAKE_FAIL", "cuLaunchKernel:1:719!")
	if work(fresh(t, 0, cuda.Options{})) == nil { // this error makes New open the device again
		t.Fatal("the injected error did not come")
	}
	t.Setenv("FAKE_ARCH", "70")
	if _, err := cuda.New(0, cuda.Options{}); err == nil || !strings.Contains(err.Error(), "7.0") {
		t.Errorf("compute capability 7.0: got error %v", err)
	}
	t.Setenv("FAKE_ARCH", "75")
	if b := fresh(t, 0, cuda.Options{}); b.Class() != "cuda/sm_75" || work(b) != nil {
		t.Errorf("compute capability 7.5: got class %s, %v", b.Class(), b.Wait())
	}
	t.Setenv("FAKE_FAIL", "cuLaunchKernel:2:719!") // New opens the device once more, for the tests that come later
	if work(fresh(t, 0, cuda.Options{})) == nil {
		t.Fatal("the injected error did not come")
	}
}

// TestCountAs: LATENTBEAM_CUDA_AS makes a device compute like one of an older compute capability. Other values are errors.
func TestCountAs(t *testing.T) {
	onFake(t)
	t.Setenv("FAKE_ARCH", "90")
	for as, want := range map[string]string{"": "cuda/sm_90+wgmma", "9.0": "cuda/sm_90+wgmma", "8.9": "cuda/sm_89-on-90",
		"7.5": "cuda/sm_75-on-90", "7.0": "give a compute", "8": "give a compute", "8.-1": "give a compute", "10.0": "has 9.0"} {
		t.Setenv(cuda.EnvAs, as)
		list, err := cuda.Devices()
		if err == nil && list[0].Class() != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("as %q: got %v, %v; want class or error %q", as, list, err, want)
		}
	}
}
