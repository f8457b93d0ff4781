package doctor

import (
	"fmt"
	"strings"

	"latentbeam/stages/cost"
)

// Examine returns what the facts mean for a job.
func Examine(f HostFacts) Report {
	r := Report{Facts: f, OK: true}
	add := func(checks ...Check) { r.Checks = append(r.Checks, checks...) }
	add(processor(f.CPU), memory(f.Memory))
	if f.Memory.HugePages != "" {
		add(hugePages(f.Memory))
	}
	if n := f.Memory.Files; n > 0 {
		add(openFiles(n))
	}
	if f.Bound.By != "" {
		add(programs(f.Bound))
	}
	add(output(f.Output))
	add(cudaChecks(f)...)
	add(libraries(f)...)
	r.OK = len(r.Broken()) == 0
	return r
}

func processor(c CPU) Check {
	out := Check{Name: "processor", State: OK, Found: fmt.Sprintf("%s, %d of %d threads, class %s", c.Name, c.Threads,
		c.Cores, c.Class)}
	if c.By != "" {
		out.Found += " by " + c.By
	}
	tier := strings.TrimPrefix(c.Class, "cpu/")
	switch {
	case tier == "go":
		out.State = Note
		out.Cost = "neither AVX2 nor AVX-512 is used: the kernels are plain Go, many times slower"
	case c.Threads < c.Cores:
		out.State = Note
		out.Cost = fmt.Sprintf("this process may use %d of %d threads (container or GOMAXPROCS)", c.Threads, c.Cores)
	}
	return out
}

// little is the memory below which published models cannot run on the CPU: T5-xxl's weights in 16 bit.
const little = 10 << 30

func memory(m HostMemory) Check {
	out := Check{Name: "memory", State: OK, Found: fmt.Sprintf("%s, %s free", cost.Bytes(m.Total), cost.Bytes(m.Free))}
	if m.Bound != "" {
		out.Found += ", bound by " + m.Bound
	}
	if m.Free < little {
		out.State = Note
		out.Cost = "T5-xxl's weights (9 GiB in 16 bit) do not stay in memory and are read from disk again and again; " +
			"the built-in model needs little"
	}
	return out
}

// fewFiles is a limit of open files that large tables with many workers reach.
const fewFiles = 1024

func openFiles(n uint64) Check {
	out := Check{Name: "open files", State: OK, Found: fmt.Sprint(n)}
	if n <= fewFiles {
		out.State = Note
		out.Cost = "many files of weights, tables and connections may not be open at a time"
		out.Fix = "raise the hard limit: ulimit -Hn, or LimitNOFILE of the service"
	}
	return out
}

func hugePages(m HostMemory) Check {
	out := Check{Name: "huge pages", State: OK, Found: m.HugePages}
	if m.HugePages == "never" {
		out.State = Note
		out.Cost = "large tensors on the CPU lose time to small pages"
		out.Fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root"
	}
	return out
}

// programs says how the option memory of exec stages is enforced.
func programs(b Bound) Check {
	out := Check{Name: "exec memory", State: OK, Found: "bounded by a control group in " + b.Group}
	if b.By != BoundGroup {
		out.State, out.Found = Note, "bounded by "+b.By+", for each process of a program by itself"
		out.Cost, out.Fix = "a program may take more by starting others: "+b.Reason, "see memory in docs/exec.md"
	}
	return out
}

// cramped is disk space for only a few thousand videos.
const cramped = 5 << 30

func output(o OutputFacts) Check {
	out := Check{Name: "output", State: OK, Found: fmt.Sprintf("%s, %s free", o.Path, cost.Bytes(o.Free))}
	switch {
	case o.Problem != "":
		out.State, out.Found = Broken, o.Path+": "+o.Problem
		out.Cost = "a job with this output stops at once"
		out.Fix = "name another directory in output.path, or give this user the right to write"
	case o.Free < cramped:
		out.State = Note
		out.Cost = "little room: a full disk stops the job (exit 75), and it continues where it stopped when there is room"
	}
	return out
}

// libraries checks optional libraries. It checks CUDA's libraries only if CUDA works.
func libraries(f HostFacts) (out []Check) {
	for _, l := range f.Libraries {
		ofCUDA := l.Name != ffmpegName
		if ofCUDA && (!f.Program.CUDA || len(f.GPU.Devices) == 0) {
			continue
		}
		if l.Name == nvmlName && f.GPU.Survey == nil {
			continue // reported already
		}
		c := Check{Name: l.Name, State: OK, Found: l.Path}
		switch {
		case l.Path == "" && l.Problem != "": // it exists and cannot be opened
			c.State, c.Found, c.Cost = Missing, l.Problem, l.Cost
		case l.Path == "":
			c.State, c.Found, c.Cost = Missing, "not found: "+strings.Join(l.Files, ", "), l.Cost
		case l.Problem != "":
			c.Found += ": " + l.Problem
		case l.Version != "":
			c.Found = l.Version + ", " + l.Path
		}
		out = append(out, c)
	}
	return out
}
