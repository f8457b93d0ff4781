package flink

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// cost is the processor time and memory of a process.
type cost struct {
	seconds float64 // processor time
	peak    int64   // largest resident memory in MiB
}

// costOf returns the cost of a process so far, and false if it has ended.
func costOf(pid int) (c cost, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return c, false
	}
	_, behind, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(behind)
	if len(fields) < 13 {
		return c, false
	}
	for _, ticks := range fields[11:13] { // in user mode and in the kernel, in hundredths of a second
		n, err := strconv.ParseFloat(ticks, 64)
		if err != nil {
			return c, false
		}
		c.seconds += n / 100
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return c, false
	}
	_, high, found := strings.Cut(string(status), "VmHWM:")
	if !found { // it is a zombie
		return c, false
	}
	kib, err := strconv.ParseInt(strings.Fields(high)[0], 10, 64)
	c.peak = kib >> 10
	return c, err == nil
}

// watch records the cost of the processes of a run until it ends.
func (f *flink) watch(t *testing.T, r *run) map[string]cost {
	t.Helper()
	began, last := map[string]cost{}, map[string]cost{}
	inspect := func(name string, pid int) {
		c, ok := costOf(pid)
		if !ok {
			return
		}
		if _, known := began[name]; !known {
			began[name] = c
		}
		last[name] = cost{c.seconds - began[name].seconds, c.peak}
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Wait() }()
	for {
		f.mu.Lock()
		for name, cmd := range f.parts {
			inspect(name, cmd.Process.Pid)
		}
		f.mu.Unlock()
		for _, pid := range f.workers(t, "") {
			name := fmt.Sprintf("worker %d", pid)
			began[name] = cost{}
			inspect(name, pid)
		}
		began["submitter"] = cost{}
		inspect("submitter", r.Process.Pid)
		select {
		case <-ended:
			return last
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// TestManyRows runs LATENTBEAM_FLINK_ROWS rows of a cheap stage on the cluster. The memory must not depend on their number.
func TestManyRows(t *testing.T) {
	f := full(t)
	n := testaid.Count(t, "LATENTBEAM_FLINK_ROWS", 20_000)
	j := probing(t, f, n)
	local := j.start(t, "local", "runner=local")
	local.ends(0)
	used := local.ProcessState.UserTime() + local.ProcessState.SystemTime()
	t.Logf("local: %.1f s, %.1f us of processor time per row", time.Since(local.began).Seconds(), used.Seconds()*1e6/float64(n))
	r := j.start(t, "flink", j.on(4)...)
	costs := f.watch(t, r)
	if code := r.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit %d: %s", code, r.text.String())
	}
	t.Logf("Flink: %.1f s for %d rows", time.Since(r.began).Seconds(), n)
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		c := costs[name]
		t.Logf("%s: %.1f s of processor time, %.1f us per row, at most %d MiB", name, c.seconds, c.seconds*1e6/float64(n), c.peak)
		most := int64(250) // MiB, for a table of any length
		if _, java := f.parts[name]; java {
			most = 600 // with a heap of 400 MB
		}
		if c.peak > most {
			t.Errorf("%s took %d MiB, more than %d", name, c.peak, most)
		}
	}
	same(t, filepath.Join(j.dir, "local"), r.out)
}
