package sets

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/devices"
	"latentbeam/pipelines/jobfile"
	"latentbeam/testdata/tiny"
)

// TestAWorkerOffersMemoryWithoutWeights: a worker subtracts the weights of its open jobs from the memory that it offers for batches, once
// per job.
func TestAWorkerOffersMemoryWithoutWeights(t *testing.T) {
	const memory = 1 << 30
	addr, _ := jobtest.WorkerWith(t, cluster.Token(jobtest.WorkerToken), 2, memory, nil)
	driver, err := devices.NewCPU(0, 1, 0)
	jobtest.Must(t, err)
	offer := func(sets ...string) int64 {
		j := jobtest.NewJob(t, jobtest.SetTable)
		job, err := json.Marshal(jobfile.Start{File: "job.yaml", YAML: j.YAML(), Sets: sets})
		jobtest.Must(t, err)
		var limits []int64
		for range 2 { // the second time, the job is open already
			f, err := devices.Dial(t.Context(), driver, cluster.Token(jobtest.WorkerToken), []string{addr}, devices.FleetJob{Start: job})
			jobtest.Must(t, err)
			t.Cleanup(f.Close) // closing the fleet ends the job, whose weights then count no more
			limits = append(limits, f.Memory().Limit)
		}
		if limits[0] != limits[1] {
			t.Errorf("the worker offers %d bytes, and then %d for the same job", limits[0], limits[1])
		}
		return limits[0]
	}
	first := offer()
	weights := memory - first
	if weights < 1<<20 || weights > 32<<20 { // the built-in model has 11 MiB, each worker half of it
		t.Errorf("the worker offers %d of %d bytes", first, memory)
	}
	if second := offer("defaults.seed=7"); second != first-weights {
		t.Errorf("the worker offers %d bytes with two open jobs, %d with one", second, first)
	}
}

// TestAWorkerStreamsForExpectedRows: if the expected rows need more memory than the defaults, a worker streams weights and offers the
// remaining memory.
func TestAWorkerStreamsForExpectedRows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	jobtest.Must(t, os.CopyFS(dir, tiny.Files()))
	addr, _ := jobtest.WorkerWith(t, cluster.Token(jobtest.WorkerToken), 1, 18<<20, nil)
	driver, err := devices.NewCPU(0, 1, 0)
	jobtest.Must(t, err)
	j := jobtest.NewJob(t, jobtest.SetTable)
	job, err := json.Marshal(jobfile.Start{File: "job.yaml", YAML: j.YAML(), Sets: []string{"model=" + dir}})
	jobtest.Must(t, err)
	f, err := devices.Dial(t.Context(), driver, cluster.Token(jobtest.WorkerToken), []string{addr}, devices.FleetJob{Start: job})
	jobtest.Must(t, err)
	defer f.Close()
	before := f.Memory().Limit
	const row = `{"rows": [{"height": 64, "width": 64, "num_frames": 16, "fps": 8, "num_inference_steps": 2,
		"guidance_scale": 4, "max_sequence_length": 120}], "elements": 3}`
	for range 2 {
		f.Expect(t.Context(), json.RawMessage(row))
		const needs = 8_600_000 // of the decoder
		if after := f.Memory().Limit; before >= needs || after < needs || after > 18<<20 {
			t.Errorf("the worker offers %d bytes, but %d before it knew the rows", after, before)
		}
	}
	f.Expect(t.Context(), json.RawMessage(`"nonsense"`))
	if f.Memory().Limit < 8_600_000 {
		t.Error("invalid input rows change the offer")
	}
}
