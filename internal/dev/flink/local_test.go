package flink

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// BenchmarkLocal measures the cost of the engine on the local runner: the whole program with a stage that computes almost nothing. It
// prints the processor time per row in microseconds, and the memory.
func BenchmarkLocal(b *testing.B) {
	const rows = 200_000
	program := filepath.Join(b.TempDir(), "program")
	if text, err := exec.Command("go", "build", "-o", program, "./program").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	j := probing(b, &flink{program: program}, rows)
	var used, peak float64
	for b.Loop() {
		cmd := exec.Command(program, "run", j.yaml, "--output", filepath.Join(b.TempDir(), "out"))
		cmd.Dir = j.dir
		if text, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, text)
		}
		used += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			peak = max(peak, float64(usage.Maxrss)/1024)
		}
	}
	b.ReportMetric(used*1e6/float64(b.N)/rows, "us/row")
	b.ReportMetric(peak, "MiB")
}
