package sets

import (
	"os"
	"path/filepath"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/stages"
	"latentbeam/testdata/tiny"
)

// TestWeightsAreLoadedAgain: if the rows of a job need another arrangement of weights than its defaults, the weights are loaded
// again before the first batch, and only then.
func TestWeightsAreLoadedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	jobtest.Must(t, os.CopyFS(dir, tiny.Files()))
	for memory, want := range map[string]int{"18MiB": 2, "64MiB": 1} {
		n := 0
		spec := jobtest.CountLoads(&n)
		j := jobtest.NewJob(t, "id,prompt,height,width,num_frames\nlarge,a red circle moves left,64,64,16\n")
		j.Replace = &spec
		j.Sets = []string{"model=" + dir, "resources.memory=" + memory}
		opened, err := j.Open()
		jobtest.Must(t, err)
		if n != 1 {
			t.Errorf("in %s: the weights were loaded %d times when the job was opened", memory, n)
		}
		if r, err := opened.Run(t.Context(), nil); err != nil || r.Done != 1 {
			t.Errorf("in %s: got %+v, %v", memory, r, err)
		}
		opened.Close()
		if n != want {
			t.Errorf("in %s: the weights were loaded %d times, want %d", memory, n, want)
		}
	}
}

// TestAWorkerLoadsWeightsAgain: a worker loads weights again if the rows that it is told to expect need another arrangement.
func TestAWorkerLoadsWeightsAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	jobtest.Must(t, os.CopyFS(dir, tiny.Files()))
	n := 0
	addr, _ := jobtest.WorkerWith(t, cluster.Token(jobtest.WorkerToken), 1, 18<<20, []stages.Spec{jobtest.CountLoads(&n)})
	j := jobtest.NewJob(t, "id,prompt,height,width,num_frames\nlarge,a red circle moves left,64,64,16\n")
	j = j.OnHosts(jobtest.TokenFile(t, jobtest.WorkerToken), "resources.workers=0 model="+dir, addr)
	if r := j.MustRun(t); r.Done != 1 || n != 2 {
		t.Errorf("got %+v, and the weights were loaded %d times, want 2", r, n)
	}
}
