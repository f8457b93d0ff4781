package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := command(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "timings:", err)
		os.Exit(1)
	}
}

// command measures every row, prints the table and writes the file. If PyTorch fails, its columns stay empty.
func command(args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("timings", flag.ContinueOnError)
	r := run{dir: filepath.Dir(os.Args[0]), log: log}
	size := flags.String("size", "full", "full, or small: reduced shapes, a test of this program")
	flags.StringVar(&r.dir, "dir", r.dir, "where the tests and torch_models.py are")
	flags.StringVar(&r.device, "device", "cuda:0", "our device: cuda:N, or cpu")
	flags.StringVar(&r.python, "python", "python3", "with torch, transformers and diffusers; none: no comparison")
	flags.StringVar(&r.torchDevice, "torch-device", "cuda", "PyTorch's device: cuda or cpu")
	flags.BoolVar(&r.cublasLt, "cublaslt", true, "measure with cublasLt too")
	flags.IntVar(&r.rounds, "rounds", 10, "rounds, of which the best counts")
	only := flags.String("only", "", "rows whose names contain this")
	path := flags.String("json", "", "file to write the figures to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if r.dir, err = filepath.Abs(r.dir); err != nil { // programs are started only from this directory
		return err
	}
	r.small = *size == "small"
	if r.device == "cpu" {
		r.device = ""
	}
	if r.python != "" {
		if found, err := exec.LookPath(r.python); err == nil {
			r.python = found
		} else {
			fmt.Fprintf(log, "timings: %v: no comparison with PyTorch\n", err)
			r.python = ""
		}
	}
	return r.rows(newReport(r), *only, *path, out)
}

// rows measures and reports. It fails if one of our figures is missing or a result is wrong.
func (r run) rows(p report, only, path string, out io.Writer) error {
	p.head(out)
	failed := 0
	for _, w := range rows {
		if !strings.Contains(w.name, only) {
			continue
		}
		f := r.measure(w)
		f.line(out)
		p.Rows = append(p.Rows, f)
		if f.Ours == nil || f.wrong {
			failed++
		}
		if path == "" {
			continue
		}
		if err := p.write(path); err != nil { // after every row, because the next may take long
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d rows failed", failed, len(p.Rows))
	}
	return nil
}
