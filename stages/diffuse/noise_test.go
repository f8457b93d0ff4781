package diffuse

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/rng"
	"latentbeam/stages/weights/safetensors"
)

// noiseFile writes a file with one tensor.
func noiseFile(t *testing.T, name string, tensor safetensors.Tensor) string {
	t.Helper()
	var out bytes.Buffer
	if err := safetensors.Write(&out, map[string]safetensors.Tensor{name: tensor}, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "noise.safetensors")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGivenNoise: latents that start from a file with the generator's own noise equal the latents without the file. Other
// noise changes only the elements that have it, on any set.
func TestGivenNoise(t *testing.T) {
	s := plainStage(t, nil)
	run := func(set func(batch []*stages.Element) error, files ...string) string {
		t.Helper()
		batch := batchOf(3, 17, 4)
		for i, path := range files {
			batch[i].Row.Noise = path
			if err := s.Check(&batch[i].Row); err != nil {
				t.Fatal(err)
			}
		}
		if err := set(batch); err != nil {
			t.Fatal(err)
		}
		return digest(t, batch)
	}
	alone := func(batch []*stages.Element) error { return s.Run(t.Context(), cpu.New(1), batch) }
	first := batchOf(1, 17, 4)[0].Row
	shape, err := s.LatentShape(&first)
	if err != nil {
		t.Fatal(err)
	}
	n := shape[0] * shape[1] * shape[2] * shape[3]
	own := make([]float32, n)
	rng.Normals(own, uint64(*first.Seed), uint32(first.SampleIndex), 0, 0)
	same := noiseFile(t, "noise", nntest.Tensor(own, shape...))
	other := noiseFile(t, "noise", nntest.Tensor(nntest.Hash("other", 1, n), shape...))
	want := run(alone)
	if run(alone, same) != want {
		t.Error("the generator's own noise from a file gives other latents")
	}
	changed := run(alone, same, other)
	if changed == want {
		t.Error("other noise gives the same latents")
	}
	for _, speeds := range [][]float64{{1, 1}, {1, 0.3, 2}, {1, 1, 1, 1, 1}} {
		on := func(batch []*stages.Element) error {
			return s.RunSet(t.Context(), setOf(speeds, func() kernels.Backend { return cpu.New(1) }), batch)
		}
		if run(on, same, other) != changed {
			t.Errorf("a set of %v gives other latents", speeds)
		}
	}
}

// TestBadNoise: what cannot be the noise of a row is refused, with the file and the reason.
func TestBadNoise(t *testing.T) {
	s := plainStage(t, nil)
	row := batchOf(1, 17, 4)[0].Row
	shape, err := s.LatentShape(&row)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, shape[0]*shape[1]*shape[2]*shape[3])
	good := nntest.Tensor(values, shape...)
	half := safetensors.Tensor{DType: "BF16", Shape: shape, Data: make([]byte, 2*len(values))}
	for want, change := range map[string]func(r *schemas.PromptRow){
		"":                             func(r *schemas.PromptRow) { r.Noise = noiseFile(t, "noise", good) },
		"no such file":                 func(r *schemas.PromptRow) { r.Noise = "absent.safetensors" },
		`name one of them "noise"`:     func(r *schemas.PromptRow) { r.Noise = noiseFile(t, "x", good) },
		"is BF16, give float32":        func(r *schemas.PromptRow) { r.Noise = noiseFile(t, "noise", half) },
		fmt.Sprint("row have ", shape): func(r *schemas.PromptRow) { r.Noise = noiseFile(t, "noise", nntest.Tensor(values, len(values))) },
		"num_videos_per_prompt is 2": func(r *schemas.PromptRow) {
			r.Noise, r.NumVideosPerPrompt = noiseFile(t, "noise", good), 2
		},
		"video of several clips": func(r *schemas.PromptRow) {
			r.Noise, r.Loop, r.ConditionFrameLength = noiseFile(t, "noise", good), 2, 4
		},
	} {
		r := row
		change(&r)
		nntest.WantError(t, want, s.Check(&r), want)
	}
	values[3] = float32(math.NaN())
	batch := batchOf(2, 17, 4)
	batch[1].Row.Noise = noiseFile(t, "noise", nntest.Tensor(values, shape...))
	if err := s.Run(t.Context(), cpu.New(1), batch); err != nil {
		t.Fatal(err)
	}
	if batch[0].Failed != nil || batch[1].Failed == nil {
		t.Fatalf("%v, %v", batch[0].Failed, batch[1].Failed)
	}
	nntest.WantError(t, "NaN", batch[1].Failed, "value 3 is NaN")
}
