package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// report is the content of the JSON file.
type report struct {
	Date   string    `json:"date"`
	GPU    string    `json:"gpu"` // from nvidia-smi: name, driver, memory, power limit
	Commit string    `json:"commit"`
	Torch  string    `json:"torch,omitempty"`
	Note   string    `json:"note,omitempty"`
	Rows   []figures `json:"rows"`
}

// newReport returns a report with the facts of the machine.
func newReport(r run) report {
	p := report{Date: time.Now().UTC().Format(time.DateTime), Commit: "unknown",
		GPU: outputOf("nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader")}
	if data, err := os.ReadFile(filepath.Join(r.dir, "commit")); err == nil {
		p.Commit = strings.TrimSpace(string(data))
	}
	if r.python != "" {
		p.Torch = outputOf(r.python, "-c", "import torch; print(torch.__version__)")
	}
	if r.small {
		p.Note = "reduced shapes: a test of the program, these figures say nothing"
	}
	return p
}

// outputOf returns what a program prints, or "unknown".
func outputOf(command ...string) string {
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func (p report) head(w io.Writer) {
	fmt.Fprintf(w, "%s, GPU: %s, commit %s, torch %s\n", p.Date, p.GPU, p.Commit, cmp.Or(p.Torch, "none"))
	if p.Note != "" {
		fmt.Fprintln(w, p.Note)
	}
	fmt.Fprintf(w, "\n%-46s %8s %8s %8s %8s %8s %8s %6s %8s %8s %8s\n", "milliseconds, best of the rounds", "floor", "target",
		"ours", "cublasLt", "eager", "compiled", "ratio", "differ", "MiB", "planned")
}

// line prints a row as soon as it is measured, because some rows take minutes.
func (f figures) line(w io.Writer) {
	fmt.Fprintf(w, "%-46s %8s %8s %8s %8s %8s %8s %6s %8s %8s %8s\n", f.Name, known(f.Floor), known(f.Target),
		number(f.Ours, "%.2f"), number(f.CublasLt, "%.2f"), number(f.Eager, "%.2f"), number(f.Compiled, "%.2f"), number(f.Ratio, "%.2f"),
		number(f.Difference, "%.1e"), mebibytes(f.Peak), mebibytes(f.Planned))
	for _, why := range f.Failures {
		fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(why, "\n", "\n    "))
	}
}

func number(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func known(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func mebibytes(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n >> 20)
}

// write writes the report to a file.
func (p report) write(path string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
