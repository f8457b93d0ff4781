package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
)

// tolerance is the allowed difference of our bf16 result from PyTorch's, relative to its root mean square. Sums have another order,
// in up to 56 blocks.
const tolerance = 0.1

// run has the options of a measurement.
type run struct {
	dir         string // directory of the tests
	device      string // device of our tests: cuda:0 or cpu
	python      string // path of Python; "": PyTorch is not measured
	torchDevice string // cuda, or cpu
	cublasLt    bool
	small       bool
	rounds      int
	log         io.Writer // output of the processes
}

// figures are a line of the table in milliseconds; nil: not measured.
type figures struct {
	Name       string   `json:"name"`
	Floor      float64  `json:"floor_ms,omitempty"` // on an H200; 0: the row has another size
	Target     float64  `json:"target_ms,omitempty"`
	Ours       *float64 `json:"ours_ms"`
	CublasLt   *float64 `json:"ours_with_cublaslt_ms"`
	Eager      *float64 `json:"torch_eager_ms"`
	Compiled   *float64 `json:"torch_compiled_ms"`
	Ratio      *float64 `json:"torch_best_to_ours"` // above 1: we are faster
	Difference *float64 `json:"rms_apart"`          // difference of our result from PyTorch's
	Peak       int64    `json:"peak_bytes"`         // device memory of tensors, measured
	Planned    int64    `json:"planned_bytes"`      // device memory that the planner predicts
	Class      string   `json:"class,omitempty"`    // numeric class of our result
	Failures   []string `json:"failures,omitempty"`
	wrong      bool     // the result differs from PyTorch's
}

// measure runs the sides of a row one after the other, so that each can use the whole memory.
func (r run) measure(w tableLine) figures {
	f := figures{Name: w.name, Floor: w.floor, Target: w.target}
	name := w.full
	if r.small {
		name = w.small
		f.Name, f.Floor, f.Target = f.Name+" (reduced)", 0, 0
	}
	var mine, theirs []float32
	f.Ours, mine = r.side(&f, w, name, "ours", r.ours(w, ""))
	if r.cublasLt {
		f.CublasLt, _ = r.side(&f, w, name, "ours with cublasLt", r.ours(w, "1"))
	}
	if r.python == "" {
		return f
	}
	f.Eager, theirs = r.side(&f, w, name, "torch", r.torch(w, "eager"))
	f.Compiled, _ = r.side(&f, w, name, "torch compiled", r.torch(w, "compiled"))
	f.compare(mine, theirs)
	for _, t := range []*float64{f.Eager, f.Compiled} {
		if t != nil && f.Ours != nil && (f.Ratio == nil || *t / *f.Ours < *f.Ratio) {
			ratio := *t / *f.Ours
			f.Ratio = &ratio
		}
	}
	return f
}

// compare records the difference of our result from PyTorch's, if there are both.
func (f *figures) compare(mine, theirs []float32) {
	if mine == nil || theirs == nil {
		return
	}
	a := rmsDifference(mine, theirs)
	f.wrong = !(a <= tolerance)
	if !math.IsInf(a, 0) && !math.IsNaN(a) { // JSON cannot represent them
		f.Difference = &a
	}
	if f.wrong {
		f.Failures = append(f.Failures, fmt.Sprintf("the results differ by %.2g, %g is allowed", a, tolerance))
	}
}

// opener starts a side.
type opener func() (*side, error)

func (r run) ours(w tableLine, cublasLt string) opener {
	env := []string{"LATENTBEAM_BENCH_BLOCKS=1", "LATENTBEAM_BENCH_DEVICE=" + r.device, "LATENTBEAM_CUBLASLT=" + cublasLt}
	return func() (*side, error) {
		return open(r.log, env, filepath.Join(r.dir, w.stage+".test"), "-test.run", "^"+w.test+"$", "-test.timeout", "0")
	}
}

func (r run) torch(w tableLine, how string) opener {
	return func() (*side, error) {
		return open(r.log, nil, r.python, filepath.Join(r.dir, "torch_models.py"), w.stage, how, r.torchDevice)
	}
}

// side times one side of a row. It records an error in f; the column of the side stays empty then.
func (r run) side(f *figures, w tableLine, name, who string, start opener) (*float64, []float32) {
	fail := func(err error) (*float64, []float32) {
		f.Failures = append(f.Failures, fmt.Sprintf("%s: %v", who, err))
		return nil, nil
	}
	s, err := start()
	if err != nil {
		return fail(err)
	}
	defer s.close()
	warm, parts := 2, w.parts
	if r.small {
		warm, parts = 1, 1
	}
	best, err := s.best(name, warm, r.rounds)
	if err != nil {
		return fail(err)
	}
	best /= float64(parts)
	if who == "ours" {
		if err := s.ask("memory", "memory ", &f.Peak, &f.Planned); err != nil {
			return fail(err)
		}
		if err := s.ask("class", "class ", &f.Class); err != nil {
			return fail(err)
		}
	}
	values, err := s.result()
	if err != nil {
		return fail(err)
	}
	return &best, values
}
