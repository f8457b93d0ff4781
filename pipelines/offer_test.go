package pipelines_test

import (
	"encoding/json"
	"testing"

	"latentbeam/internal/transport"
	"latentbeam/pipelines"
	"latentbeam/runners/pool"
)

// TestAWorkerOffersWhatWeightsLeave: the weights of the jobs that are open on a worker are taken off the memory that
// it offers for batches, those of each job once.
func TestAWorkerOffersWhatWeightsLeave(t *testing.T) {
	const memory = 1 << 30
	node, err := transport.Listen("127.0.0.1:0", transport.Token(workerToken))
	must(t, err)
	local, err := pool.NewCPU(2, 1, memory)
	must(t, err)
	addr, _ := workerOf(t, node, local, nil)
	driver, err := pool.NewCPU(0, 1, 0)
	must(t, err)
	offer := func(sets ...string) int64 {
		j := newJob(t, setTable)
		job, err := json.Marshal(pipelines.Start{File: "job.yaml", YAML: j.yaml(), Sets: sets})
		must(t, err)
		var limits []int64
		for range 2 { // the second time it is open already
			f, err := pool.Dial(t.Context(), driver, transport.Token(workerToken), []string{addr}, pool.Job{Start: job})
			must(t, err)
			f.Close()
			limits = append(limits, f.Memory().Limit)
		}
		if limits[0] != limits[1] {
			t.Errorf("%d bytes are offered, then %d", limits[0], limits[1])
		}
		return limits[0]
	}
	first := offer()
	weights := memory - first
	if weights < 1<<20 || weights > 32<<20 { // the built-in model has 11 MiB, each worker half of it
		t.Errorf("%d of %d bytes are offered", first, memory)
	}
	if second := offer("defaults.seed=7"); second != first-weights {
		t.Errorf("%d bytes are offered beside two jobs, %d beside one", second, first)
	}
}
