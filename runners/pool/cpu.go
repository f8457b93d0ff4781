package pool

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"latentbeam/internal/plan"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
)

// cpuTarget is the batch memory beyond which a CPU worker gains nothing: its kernels block for the
// caches, so a larger batch only delays the first result and loses more when the process is killed.
const cpuTarget = 16 << 20

// assumedMemory stands in where the system does not tell what is free.
const assumedMemory = 4 << 30

// CPU is the pool of CPU workers of this process: each has an equal share of the threads.
type CPU struct {
	free   chan worker
	memory plan.Memory
	class  string
}

// worker is a device with what is needed to make it anew.
type worker struct {
	dev     *cpu.Backend
	threads int
}

// NewCPU makes a pool of workers sharing threads (0: all of GOMAXPROCS) and at most memory bytes of
// batches each (0: four fifths of what is free, divided by the workers).
func NewCPU(workers, threads int, memory int64) (*CPU, error) {
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if workers < 1 || workers > threads {
		return nil, fmt.Errorf("resources.workers is %d: give 1 to %d, one thread at least for each worker", workers, threads)
	}
	if memory == 0 {
		memory = available() / 5 * 4 / int64(workers)
	}
	p := &CPU{
		free:   make(chan worker, workers),
		memory: plan.Memory{Target: min(cpuTarget, memory), Limit: memory},
	}
	for i := range workers {
		share := threads / workers
		if i < threads%workers {
			share++
		}
		b := cpu.New(share)
		p.class = b.Class()
		p.free <- worker{b, share}
	}
	return p, nil
}

// Lease waits for a free worker. A worker whose batch did not end well gets a new backend when it comes
// back: backends keep their first error, and a panic leaves scopes open.
func (p *CPU) Lease(ctx context.Context) (kernels.Backend, func(ok bool), error) {
	select {
	case w := <-p.free:
		return w.dev, func(ok bool) {
			if !ok || w.dev.Wait() != nil {
				w.dev = cpu.New(w.threads)
			}
			p.free <- w
		}, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// Size returns the number of workers.
func (p *CPU) Size() int { return cap(p.free) }

// Memory returns what a batch may use on one worker.
func (p *CPU) Memory() plan.Memory { return p.memory }

// Class returns the numeric class of the workers' results.
func (p *CPU) Class() string { return p.class }

// available is the memory that this process may still take, in bytes: what the system has free, or what
// its control group leaves, as in a container.
func available() int64 {
	free := systemFree()
	if limit, ok := readNumber("/sys/fs/cgroup/memory.max"); ok {
		if used, ok := readNumber("/sys/fs/cgroup/memory.current"); ok {
			free = min(free, max(0, limit-used))
		}
	}
	return free
}

// readNumber reads a file that holds one number; "max" and a missing file are none.
func readNumber(name string) (int64, bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// systemFree reads what Linux calls MemAvailable.
func systemFree() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return assumedMemory
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib int64
		if line, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			if _, err := fmt.Sscan(line, &kib); err == nil {
				return kib << 10
			}
		}
	}
	return assumedMemory
}
