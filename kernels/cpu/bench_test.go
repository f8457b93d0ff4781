package cpu

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"latentbeam/kernels"
)

// BenchmarkKernel measures every kernel in every tier of this processor, on GOMAXPROCS threads. LATENTBEAM_CPU selects one tier.
// benchmarks/README.md explains the names and units. Tiers that compute another class in plain Go are left out, because they are only for
// tests.
func BenchmarkKernel(b *testing.B) {
	for _, tier := range allTiers() {
		if want := os.Getenv(tierVariable); tier.instructions == "go" || want != "" && want != tier.name && want != tier.String() {
			continue
		}
		k := &kernelBench{b: b, be: New(0), best: map[string]float64{}}
		k.be.tier = tier
		k.addPeaks()
		k.addLinear()
		k.addConv()
		k.addAttention()
		k.addRows()
	}
}

// kernelBench runs the benchmarks of one tier.
type kernelBench struct {
	b     *testing.B
	be    *Backend
	peaks []peak
	best  map[string]float64 // highest rate of a core by kind of peak; only kinds that were measured
}

// add adds a benchmark. bound is the kind of peak that bounds a call, and amount the FLOP of a call, or its bytes if bound is "read".
// open allocates the operands and returns the call; it runs only if the benchmark was selected.
func (k *kernelBench) add(name, bound string, amount float64, open func(b *testing.B) func()) {
	k.b.Run(name+"/impl="+k.be.tier.String(), func(b *testing.B) {
		defer k.be.Scope()() // operands are in the arena, in huge pages if the system has them, as in a job
		run := open(b)
		run() // packs weights that stay packed
		before := processorTime()
		for b.Loop() {
			run()
		}
		busy := processorTime() - before
		if err := k.be.Wait(); err != nil {
			b.Fatal(err)
		}
		unit := "GFLOP/s"
		if bound == "read" {
			unit = "GB/s"
		}
		calls := float64(b.N)
		b.ReportMetric(amount*calls/b.Elapsed().Seconds()/1e9, unit)
		if busy == 0 {
			return // the processor time is not measured on this system
		}
		b.ReportMetric(float64(busy)/calls, "cpu-ns/op")
		if best := k.bestOf(bound); best > 0 && !strings.HasPrefix(name, "op=peak/") {
			b.ReportMetric(100*amount*calls/busy.Seconds()/best, "%peak")
		}
	})
}

// bestOf returns the highest rate of a core in the loop of a kind, or 0 if the tier has no such loop. It measures a loop once.
func (k *kernelBench) bestOf(kind string) float64 {
	if best, ok := k.best[kind]; ok {
		return best
	}
	k.best[kind] = 0
	for _, p := range k.peaks {
		if p.kind != kind {
			continue
		}
		for range 10 {
			before, calls := processorTime(), 0
			for start := time.Now(); time.Since(start) < 20*time.Millisecond; calls++ {
				p.call(k.be)
			}
			busy := max(processorTime()-before, 1)
			k.best[kind] = max(k.best[kind], float64(calls*len(k.be.crew.workers))*p.amount/busy.Seconds())
		}
	}
	return k.best[kind]
}

// peak is a loop that does only one kind of work on every worker; its rate is the upper bound for kernels.
type peak struct {
	kind   string
	amount float64 // FLOP or bytes of a worker in one call
	run    func(worker int)
}

// call runs the loop on all workers of be.
func (p peak) call(be *Backend) {
	be.each("peak", len(be.crew.workers), func(_ *worker, i int) { p.run(i) })
}

// addPeaks adds the multiply-add rate of the tier's registers, without memory, and the bandwidth of reads, without arithmetic.
func (k *kernelBench) addPeaks() {
	const turns = 100_000
	for _, p := range nativePeaks(k.be.tier) {
		k.peaks = append(k.peaks, peak{p.kind, turns * p.flop, func(int) { p.run(turns) }})
	}
	workers := len(k.be.crew.workers)
	memory := make([]byte, 256<<20)
	for i := range memory {
		memory[i] = 1 // unwritten pages would all be the system's one page of zeros, which stays in the cache
	}
	part := len(memory) / workers
	k.peaks = append(k.peaks, peak{"read", float64(part), func(worker int) { readMemory(memory[worker*part : (worker+1)*part]) }})
	for _, p := range k.peaks {
		k.add("op=peak/type="+p.kind, p.kind, float64(workers)*p.amount, func(*testing.B) func() { return func() { p.call(k.be) } })
	}
}

// bound returns the kind of peak that bounds products of the types x and w.
func (k *kernelBench) bound(x, w kernels.DType) string {
	if k.be.tier.dotFor(x, w) == dotBF16 {
		return "bf16"
	}
	return "f32"
}

// rate runs f and reports flop per call as GFLOP/s.
func rate(b *testing.B, be *Backend, flop int, f func()) {
	for b.Loop() {
		f()
	}
	if err := be.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(flop)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// filled returns a tensor of numbers from -1 to 1. Fresh memory could have denormal numbers and NaN, which slow the arithmetic.
func filled(be *Backend, dt kernels.DType, shape ...int) kernels.Tensor {
	t := be.Alloc(dt, shape...)
	host := make([]float32, t.Len())
	for i := range host {
		host[i] = float32(i%17)/8 - 1
	}
	be.Upload(t, host)
	return t
}

// typeName returns a type as it is written in names of benchmarks, such as bf16.
func typeName(dt kernels.DType) string { return strings.ToLower(dt.String()) }

// times returns a shape as it is written in names of benchmarks, such as 2x3x4.
func times(shape ...int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "x")
}
