package cpu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"latentbeam/kernels"
)

// benchVariable names the file that TestMeasure writes; without it the test is skipped (make bench). The
// threads are GOMAXPROCS. tierVariable chooses one tier, onlyVariable what is measured beside the peaks.
const (
	benchVariable = "LATENTBEAM_BENCH"
	onlyVariable  = "LATENTBEAM_BENCH_ONLY" // a regular expression for "kernel shape type", or onlyPeaks
	onlyPeaks     = "peak"
)

// measurement is one line of bench.json.
type measurement struct {
	Tier     string  `json:"tier"`
	Threads  int     `json:"threads"`
	Kernel   string  `json:"kernel"`
	Shape    string  `json:"shape"`
	Type     string  `json:"type"`
	Rate     float64 `json:"rate"`
	Unit     string  `json:"unit"`
	Fraction float64 `json:"fraction,omitempty"` // of this machine's peak, measured in the same run
	best     time.Duration
	amount   float64 // of Unit, times 1e9, in one call
	peak     string  // the measurement that is 1
	run      func()
}

// TestMeasure measures every kernel and the machine's own peak, tier by tier, one after the other in several
// rounds, and reports the best of each.
func TestMeasure(t *testing.T) {
	path := os.Getenv(benchVariable)
	if path == "" {
		t.Skip("set " + benchVariable + " to the file to write, or run make bench")
	}
	var all []*measurement
	for _, tier := range allTiers() {
		if want := os.Getenv(tierVariable); tier.by != "go" && (want == "" || want == tier.name || want == tier.String()) {
			all = append(all, measureTier(t, tier)...)
		}
	}
	out, err := json.MarshalIndent(all, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(out, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// measureTier measures a tier. Its operands are garbage afterwards: some gigabytes.
func measureTier(t *testing.T, tier *tier) []*measurement {
	const rounds = 8
	all, peaks := measurements(t, tier, runtime.GOMAXPROCS(0)), map[string]float64{}
	for range rounds {
		for _, m := range all {
			m.measure()
		}
	}
	for _, m := range all {
		m.Rate = m.amount / m.best.Seconds() / 1e9
		if m.Kernel == "peak" {
			peaks[m.Type] = m.Rate
		}
		if p := peaks[m.peak]; p > 0 {
			m.Fraction = m.Rate / p
		}
		t.Logf("%-10s %d threads  %-16s %-22s %-9s %8.1f %-7s %5.1f %%", m.Tier, m.Threads, m.Kernel, m.Shape,
			m.Type, m.Rate, m.Unit, 100*m.Fraction)
		m.run = nil
	}
	runtime.GC()
	return all
}

// measure runs m for some 20 ms, and keeps the best time of a call.
func (m *measurement) measure() {
	for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
		before := time.Now()
		m.run()
		if d := time.Since(before); m.best == 0 || d < m.best {
			m.best = d
		}
	}
}

// measurements returns what is measured of a tier, its peaks first.
func measurements(t *testing.T, tier *tier, threads int) []*measurement {
	be := New(threads)
	be.tier = tier
	be.Scope() // for good: operands lie in the arena, in huge pages where there are some, as those of a model do
	var all []*measurement
	only := regexp.MustCompile(os.Getenv(onlyVariable))
	add := func(kernel, shape, kind, unit, peak string, amount float64, run func()) {
		if kernel != "peak" && !only.MatchString(kernel+" "+shape+" "+kind) {
			return
		}
		all = append(all, &measurement{Tier: tier.String(), Threads: threads, Kernel: kernel, Shape: shape, Type: kind,
			Unit: unit, amount: amount, peak: peak, run: run})
	}
	addPeaks(be, add)
	if os.Getenv(onlyVariable) == onlyPeaks {
		return all
	}
	for _, s := range [][3]int{{1024, 1152, 1152}, {1024, 4608, 1152}, {1024, 1152, 4608}, {256, 1152, 1152},
		{120, 4096, 4096}, {120, 10240, 4096}, {120, 4096, 10240}, {256, 128, 128}, {64, 64, 64}, {2, 1152, 1152},
		{4096, 1536, 1536}, {4096, 8960, 1536}, {4096, 1536, 8960}} { // the last three are Wan's
		addLinear(t, be, s, add)
	}
	addConv(be, add)
	addAttention(be, add)
	addRows(be, add)
	return all
}

type adder func(kernel, shape, kind, unit, peak string, amount float64, run func())

// addPeaks adds the machine's multiply-add rate for the tier's registers, and its bandwidth.
func addPeaks(be *Backend, add adder) {
	for _, p := range nativePeaks(be.tier) {
		each := func(*worker, int) { p.run(10_000) }
		add("peak", "", p.kind, "GFLOP/s", p.kind, float64(len(be.crew.workers)*10_000)*p.flop,
			func() { be.each("peak", len(be.crew.workers), each) })
	}
	memory := bytes.Repeat([]byte{1}, 256<<20)
	part := len(memory) / len(be.crew.workers)
	read := func(_ *worker, i int) { readMemory(unsafe.Pointer(&memory[i*part]), part) }
	add("peak", "", "read", "GB/s", "read", float64(len(memory)), func() { be.each("peak", len(be.crew.workers), read) })
}

// addLinear adds a product with weights as they lie in a mapped file, and with weights packed once.
func addLinear(t *testing.T, be *Backend, s [3]int, add adder) {
	m, n, k := s[0], s[1], s[2]
	for _, c := range []struct {
		name string
		x, w kernels.DType
	}{{"f32", kernels.F32, kernels.F32}, {"bf16", kernels.BF16, kernels.BF16}, {"f32 bf16", kernels.F32, kernels.BF16}} {
		peak := "f32"
		if be.tier.dotFor(c.x, c.w) == dotBF16 {
			peak = "bf16"
		}
		if be.tier == portable && m*n*k > 1<<23 {
			continue
		}
		x, y := filled(be, c.x, m, k), be.Alloc(c.x, m, n)
		w, err := be.Weights(c.w, []int{n, k}, mappedFile(t, n*k*c.w.Size()))
		if err != nil {
			t.Fatal(err)
		}
		for _, keep := range []int{0, 1 << 30} {
			name := map[bool]string{true: "linear mapped", false: "linear packed"}[keep == 0]
			add(name, fmt.Sprintf("%dx%dx%d", m, n, k), c.name, "GFLOP/s", peak, 2*float64(m)*float64(n)*float64(k), func() {
				be.keep, be.keepAll = keep, 4<<30
				be.Linear(y, x, w, kernels.Epilogue{})
			})
		}
	}
	if be.tier != portable {
		x, y := filled(be, kernels.BF16, m, k), be.Alloc(kernels.BF16, m, n)
		w, err := be.Weights(kernels.BF16, []int{n, k}, mappedFile(t, n*k*2))
		if err != nil {
			t.Fatal(err)
		}
		add("linear packed", fmt.Sprintf("%dx%dx%d", m, n, k), "int8", "GFLOP/s", "int8", 2*float64(m)*float64(n)*float64(k), func() {
			be.Linear(y, x, w, kernels.Epilogue{Int8: true})
		})
	}
}

// addConv adds the convolutions of AutoencoderKL's decoder, and those over three frames of Wan's.
func addConv(be *Backend, add adder) {
	for _, s := range []struct{ size, cin, cout, k, frames int }{{64, 512, 512, 3, 1}, {256, 256, 256, 3, 1}, {512, 128, 128, 3, 1},
		{64, 512, 512, 1, 1}, {80, 384, 384, 3, 3}, {320, 192, 192, 3, 3}, {640, 96, 96, 3, 3}, {640, 96, 3, 3, 3}} {
		for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
			peak := "f32"
			if be.tier.dotFor(dt, dt) == dotBF16 {
				peak = "bf16"
			}
			if be.tier == portable {
				continue
			}
			x, w := filled(be, dt, 1, s.frames, s.size, s.size, s.cin), filled(be, dt, s.cout, s.cin, s.frames, s.k, s.k)
			w.Buf.(*buffer).weight = &weightState{}
			y := be.Alloc(dt, 1, 1, s.size, s.size, s.cout)
			p := s.k / 2
			spec := kernels.ConvSpec{Top: p, Left: p, Bottom: p, Right: p}
			add(fmt.Sprintf("conv %dx%dx%d", s.frames, s.k, s.k), fmt.Sprintf("%d to %d, %dx%d", s.cin, s.cout, s.size, s.size),
				dt.String(), "GFLOP/s", peak, 2*float64(y.Len())*float64(s.cin*s.frames*s.k*s.k), func() { be.Conv(y, x, w, spec) })
		}
	}
}

// mappedFile returns n bytes of a mapped file that hold small numbers of every type.
func mappedFile(t *testing.T, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weights")
	data := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
		if i%2 == 1 { // the upper byte of bf16: magnitudes around 1
			data[i] = data[i]&0x80 | 0x3f
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	mapped, err := mapFile(path, n)
	if err != nil {
		t.Fatal(err)
	}
	return mapped
}
