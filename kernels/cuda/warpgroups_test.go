//go:build cuda && linux

package cuda_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// TestWarpgroups: a device of compute capability 9.0 has kernels that use warpgroups. When it is opened, a trial runs each of them. If their
// results are right, the device uses them; else it computes without them, in another numeric class, and the log says why. Each case runs in
// another process, because a process tries a device only once.
func TestWarpgroups(t *testing.T) {
	onFake(t)
	if os.Getenv("WARPGROUPS") != "" {
		useWarpgroups(t)
		return
	}
	bits := map[string]string{} // bits of a product, by class
	for _, c := range []struct {
		name, variable string // variable is set in the environment
		class, device  string // wanted
		why            string // part of the reason why warpgroups are not used; "": they are, or the device has none
	}{
		{name: "used", class: "cuda/sm_90+wgmma", device: "cuda:0"},
		{name: "turned off", variable: "LATENTBEAM_WGMMA=0", class: "cuda/sm_90", device: "cuda:0",
			why: "LATENTBEAM_WGMMA=0"},
		{name: "wrong results", variable: "FAKE_WGMMA=0", class: "cuda/sm_90", device: "cuda:0",
			why: "gemm_wg_bf16_128: number 0 is 0, by kernels without warpgroups "},
		{name: "not compiled", variable: "FAKE_FAIL=cuModuleLoadData:2:218", class: "cuda/sm_90", device: "cuda:0",
			why: "a PTX JIT compilation failed: line 7 means nothing; line 9 neither"},
		{name: "an illegal instruction", variable: "FAKE_FAIL=cuLaunchKernel:3:715!", class: "cuda/sm_90",
			device: "cuda:0.1", why: "715"},
		{name: "no memory at first", variable: "FAKE_FAIL=cuMemAlloc_v2:1:2", class: "cuda/sm_90+wgmma", device: "cuda:0"},
		{name: "an older device", variable: "FAKE_ARCH=80", class: "cuda/sm_80", device: "cuda:0"},
		{name: "as an older device", variable: "LATENTBEAM_CUDA_AS=8.0", class: "cuda/sm_80-on-90", device: "cuda:0"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWarpgroups$")
		cmd.Env = append(os.Environ(), "FAKE_ARCH=90", "WARPGROUPS=1", c.variable)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, out)
			continue
		}
		var class, device, sum string
		_, line, _ := strings.Cut(string(out), "outcome ")
		line, why, _ := strings.Cut(line, "why:")
		if _, err := fmt.Sscan(line, &class, &device, &sum); err != nil {
			t.Fatalf("%s: %v in %s", c.name, err, out)
		}
		why, _, _ = strings.Cut(why, "\n")
		if class != c.class || device != c.device || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: got %s of class %s, without warpgroups because of %q; want %s of %s, %q", c.name, device, class, why, c.device,
				c.class, c.why)
		}
		warned := strings.Contains(string(out), "WARN a GPU computes with the kernels of older ones")
		if warned != (c.why != "" && !strings.Contains(c.variable, "LATENTBEAM")) {
			t.Errorf("%s: a warning is in the log: %v\n%s", c.name, warned, out)
		}
		if before, ok := bits[class]; ok && before != sum {
			t.Errorf("%s: a product of class %s has other bits than before", c.name, class)
		}
		bits[class] = sum
	}
	if bits["cuda/sm_90"] != bits["cuda/sm_80"] || bits["cuda/sm_80-on-90"] != bits["cuda/sm_80"] ||
		bits["cuda/sm_90"] == bits["cuda/sm_90+wgmma"] {
		t.Errorf("want equal products in all classes but +wgmma: %v", bits)
	}
}

// TestTrialEndsContext: if a trial ends the context and the driver gives no new one in this process, or if a trial does not end, every error says
// how to turn off the trials.
func TestTrialEndsContext(t *testing.T) {
	if os.Getenv("SPOILED") != "" {
		for range 2 {
			_, err := cuda.New(0, cuda.Options{})
			fmt.Println("outcome", err)
		}
		return
	}
	onFake(t)
	for _, c := range []struct {
		fail, patience string // FAKE_FAIL and the variable EnvPatience
		text           string // part of both errors
	}{
		{"cuLaunchKernel:3:715!", "", "has ended its context"},
		{"cuLaunchKernel:3:~3600000", "10s", "has not answered for 10s"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTrialEndsContext$")
		cmd.Env = append(os.Environ(), "SPOILED=1", "FAKE_ARCH=90", "FAKE_RESET=0", "FAKE_FAIL="+c.fail,
			cuda.EnvPatience+"="+c.patience)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Count(string(out), "restart the program with LATENTBEAM_WGMMA=0") != 2 ||
			strings.Count(string(out), c.text) != 2 {
			t.Errorf("%s: %v\n%s", c.fail, err, out)
		}
	}
}

// useWarpgroups opens the first device, computes a product and prints the result.
func useWarpgroups(t *testing.T) {
	b, err := cuda.New(0, cuda.Options{})
	if fault.IsOutOfMemory(err) {
		b, err = cuda.New(0, cuda.Options{}) // FAKE_FAIL fails only the first allocation
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Scope()()
	const m, n, k = 20, 40, 200
	x, w, y := b.Alloc(kernels.BF16, m, k), b.Alloc(kernels.BF16, n, k), b.Alloc(kernels.F32, m, n)
	values := make([]float32, n*k)
	for i := range values {
		values[i] = float32(i*7919%509)/509 - 0.3
	}
	b.Upload(x, values[:m*k])
	b.Upload(w, values)
	b.Linear(y, x, w, kernels.Epilogue{})
	got := make([]float32, m*n)
	if err := b.Download(got, y); err != nil {
		t.Fatal(err)
	}
	sum := fnv.New64a()
	for _, v := range got {
		fmt.Fprintf(sum, "%x ", v)
	}
	list, err := cuda.Devices()
	if err != nil || list[0].Class() != b.Class() {
		t.Fatalf("the backend is of class %s, the device of %s, %v", b.Class(), list[0].Class(), err)
	}
	fmt.Printf("outcome %s %s %x why:%s\n", b.Class(), b.Device(), sum.Sum64(), list[0].WithoutWarpgroups())
}
