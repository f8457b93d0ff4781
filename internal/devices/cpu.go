package devices

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"latentbeam/internal/config"

	"latentbeam/internal/cluster"
	"latentbeam/internal/system"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

// cpuTarget is the batch memory in bytes beyond which a CPU worker gets no faster, because its kernels work on
// cache-sized blocks. A larger batch only delays the first result and loses more when the process is killed.
const cpuTarget = 16 << 20

// maxWorkers bounds the workers of a process.
const maxWorkers = config.MaxWorkers

// CPU is the pool of CPU workers of this process: each has an equal share of the threads.
type CPU struct {
	speeds []float64
	whole  cost.Memory // what each worker could use if weights took nothing
	class  string

	mu      sync.Mutex
	memory  cost.Memory
	free    map[int]worker // by number
	changed chan struct{}  // closed and replaced when workers become free
}

// worker is a device, and the options to create it again.
type worker struct {
	number  int
	dev     *cpu.Backend
	threads int
}

// NewCPU returns a pool of workers that share threads (0: GOMAXPROCS), at least one thread each. Each worker may use
// memory bytes for batches (0: its share of four fifths of the free memory). More workers than threads only help to
// test larger sets, because they share the processors. A pool without workers is for a process that computes only on
// other hosts.
func NewCPU(workers, threads int, memory int64) (*CPU, error) {
	return NewCPUOf("", workers, threads, memory)
}

// NewCPUOf is NewCPU for workers of a numeric class; "": the fastest class of this processor. It returns an error if this
// processor does not support the class.
func NewCPUOf(class string, workers, threads int, memory int64) (*CPU, error) {
	like := cpu.NewOf(class, 1)
	if class != "" && like.Wait() != nil {
		return nil, like.Wait()
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if workers < 0 || workers > maxWorkers {
		return nil, fmt.Errorf("resources.workers is %d: give 1 to %d, or 0 with hosts", workers, maxWorkers)
	}
	if memory == 0 {
		memory = system.AvailableMemory() / 5 * 4 / int64(max(1, workers))
	}
	whole := cost.Memory{Target: min(cpuTarget, memory), Limit: memory}
	p := &CPU{free: map[int]worker{}, changed: make(chan struct{}), whole: whole, memory: whole, class: like.Class()}
	for i := range workers {
		share := threads / workers
		if i < threads%workers {
			share++
		}
		b := cpu.NewOf(class, max(1, share))
		p.speeds = append(p.speeds, float64(max(1, share)))
		p.free[i] = worker{i, b, max(1, share)}
	}
	return p, nil
}

// LeaseSet waits for n free workers, or for all if the pool has fewer. A worker whose batch failed gets a new
// backend on release, because backends retain their first error and a panic leaves scopes open.
func (p *CPU) LeaseSet(ctx context.Context, n int) (*stages.Set, func(ok bool), error) {
	n = min(n, p.Size())
	return p.lease(ctx, func() []int {
		if len(p.free) < n {
			return nil
		}
		return slices.Sorted(maps.Keys(p.free))[:n]
	})
}

// LeaseThese waits until the workers with these numbers are free.
func (p *CPU) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(ok bool), error) {
	for i, d := range devices {
		if d < 0 || d >= p.Size() || slices.Contains(devices[:i], d) {
			return nil, nil, fmt.Errorf("lease devices %v of %d", devices, p.Size())
		}
	}
	return p.lease(ctx, func() []int {
		for _, d := range devices {
			if _, free := p.free[d]; !free {
				return nil
			}
		}
		return devices
	})
}

// lease waits until choose returns free workers, and leases them together, so that two leases never deadlock. choose returns nil
// while a worker that it needs is not free.
func (p *CPU) lease(ctx context.Context, choose func() []int) (*stages.Set, func(ok bool), error) {
	for {
		p.mu.Lock()
		chosen := choose()
		workers := make([]worker, len(chosen))
		for i, n := range chosen {
			workers[i] = p.free[n]
			delete(p.free, n)
		}
		changed := p.changed
		p.mu.Unlock()
		if len(workers) > 0 {
			return setOf(workers), func(ok bool) { p.release(workers, ok) }, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// setOf returns a set of these workers.
func setOf(workers []worker) *stages.Set {
	set := &stages.Set{}
	for _, w := range workers {
		set.Devices = append(set.Devices, w.dev)
		set.Speeds = append(set.Speeds, float64(w.threads))
	}
	if len(workers) > 1 {
		set.Connect = func(context.Context) ([]kernels.Transport, error) {
			return cluster.Shared(len(workers)), nil
		}
	}
	return set
}

// release returns workers to the pool; ok says whether the batch succeeded. After a failure, a rank may still
// use its old backend, so the worker gets a new one.
func (p *CPU) release(workers []worker, ok bool) {
	for i, w := range workers {
		if !ok || w.dev.Wait() != nil {
			workers[i].dev = cpu.NewOf(p.class, w.threads)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range workers {
		p.free[w.number] = w
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Size returns the number of workers.
func (p *CPU) Size() int { return len(p.speeds) }

// Speeds returns the relative speed of each worker.
func (p *CPU) Speeds() []float64 { return p.speeds }

// Changed returns nil: the workers of a CPU pool never change.
func (p *CPU) Changed() <-chan struct{} { return nil }

// Memory returns the memory that a batch may use on one worker.
func (p *CPU) Memory() cost.Memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory
}

// Weights sets the bytes of memory that weights take from all workers together; batches get the rest. If nothing
// would be left, batches may use all memory, because weights are mapped files that the system can page out.
func (p *CPU) Weights(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory = p.whole
	if each := bytes / int64(max(1, p.Size())); each < p.whole.Limit {
		p.memory.Limit -= each
		p.memory.Target = min(p.memory.Target, p.memory.Limit)
	}
}

// Capabilities returns only Weights: all workers and their connections are equal.
func (p *CPU) Capabilities() PoolCapabilities {
	return PoolCapabilities{Weights: p.Weights}
}

// Class returns the numeric class of the workers' results.
func (p *CPU) Class() string { return p.class }
