package pipelines_test

import (
	"os"
	"path/filepath"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/testdata/tiny"
)

// loads counts how often the weights of a stage are brought to a device before a run.
type loads struct {
	stages.Stage
	n *int
}

func (l loads) Capabilities() stages.Capabilities {
	all := l.Stage.Capabilities()
	can := stages.Capabilities{Cost: all.Cost, Spread: all.Spread, Loading: all.Loading}
	load := all.Loading.Load
	can.Loading.Load = func(dev kernels.Backend) error {
		*l.n++
		return load(dev)
	}
	return can
}

// counted is the denoiser with its loads.
func counted(n *int) stages.Spec {
	return denoiser(func(s stages.Stage) stages.Stage { return loads{s, n} })
}

// TestWeightsAreLoadedAsTheyLie: where the rows of a job ask for another arrangement than its defaults, weights are
// brought to the device anew before the first batch, and only there.
func TestWeightsAreLoadedAsTheyLie(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	must(t, os.CopyFS(dir, tiny.Files()))
	for memory, want := range map[string]int{"18MiB": 2, "64MiB": 1} {
		n := 0
		spec := counted(&n)
		j := newJob(t, "id,prompt,height,width,num_frames\nlarge,a red circle moves left,64,64,16\n")
		j.replace = &spec
		j.sets = []string{"model=" + dir, "resources.memory=" + memory}
		opened, err := j.open()
		must(t, err)
		if n != 1 {
			t.Errorf("in %s: loaded %d times when it was opened", memory, n)
		}
		if r, err := opened.Run(t.Context(), nil); err != nil || r.Done != 1 {
			t.Errorf("in %s: %+v, %v", memory, r, err)
		}
		opened.Close()
		if n != want {
			t.Errorf("in %s: loaded %d times, want %d", memory, n, want)
		}
	}
}

// TestAWorkerLoadsWeightsAsTheyLie: so does a worker that hears of the rows.
func TestAWorkerLoadsWeightsAsTheyLie(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	must(t, os.CopyFS(dir, tiny.Files()))
	n := 0
	addr, _ := workerWith(t, cluster.Token(workerToken), 1, 18<<20, []stages.Spec{counted(&n)})
	j := newJob(t, "id,prompt,height,width,num_frames\nlarge,a red circle moves left,64,64,16\n")
	j = j.onHosts(tokenFile(t, workerToken), "resources.workers=0 model="+dir, addr)
	if r := j.mustRun(t); r.Done != 1 || n != 2 {
		t.Errorf("%+v, loaded %d times, want 2", r, n)
	}
}
