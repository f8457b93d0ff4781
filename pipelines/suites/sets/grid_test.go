package sets

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/testdata/tiny"
)

// gridStages lists the stages of a text-to-video job, with options that can be set.
const gridStages = "[encode_text: {}, denoise: {}, decode_vae, guard, encode_video]"

// TestSameBytesOnAnyGrid: the output does not depend on how the weights of the text encoder and the denoiser are divided among
// workers.
func TestSameBytesOnAnyGrid(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	for _, c := range []string{
		"resources.workers=2 denoise.tp_size=2",
		"resources.workers=3 denoise.tp_size=3 resources.batch_size=1",
		"resources.workers=4 denoise.tp_size=4 encode_text.tp_size=4",
		"resources.workers=3 encode_text.tp_size=3 resources.threads=1",
		"resources.workers=2 denoise.pp_size=2 encode_text.pp_size=2",
		"resources.workers=3 denoise.pp_size=3 resources.batch_size=3",
		"resources.workers=4 denoise.pp_size=2 resources.batch_size=1", // two sets
		"resources.workers=4 denoise.tp_size=2 denoise.pp_size=2 encode_text.tp_size=2 encode_text.pp_size=2",
		"resources.workers=7 denoise.tp_size=2 denoise.sequence_parallel=3",
		"resources.workers=8 denoise.tp_size=2 denoise.pp_size=2 denoise.sequence_parallel=2 denoise.partition=pad",
		"resources.workers=2 denoise.tp_size=auto denoise.pp_size=auto encode_text.tp_size=1",
	} {
		j := base.Elsewhere(t)
		j.Stages = gridStages
		for _, set := range strings.Fields(c) {
			if !strings.HasPrefix(set, "resources.") {
				set = "stages." + set
			}
			j.Sets = append(j.Sets, set)
		}
		j.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%s: the output differs:\n%s", c, strings.Join(wrong, "\n"))
		}
	}
}

// TestSameBytesOnGridsOverTCP is TestSameBytesOnAnyGrid with some of the ranks in other processes.
func TestSameBytesOnGridsOverTCP(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	a, _ := jobtest.StartWorker(t, token, 1, nil)
	b, _ := jobtest.StartWorker(t, token, 2, nil)
	for _, c := range []string{
		"stages.denoise.tp_size=2 stages.denoise.pp_size=2 stages.encode_text.pp_size=2",
		"stages.denoise.pp_size=3 stages.encode_text.tp_size=4 resources.batch_size=2",
		"stages.denoise.sequence_parallel=2 stages.denoise.tp_size=2",
	} {
		j := base.Elsewhere(t).OnHosts(token, c, a, b)
		j.Stages = gridStages
		j.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%s: the output differs:\n%s", c, strings.Join(wrong, "\n"))
		}
	}
}

// TestImpossibleGrids: a division of weights that the model or the devices do not allow is an error with the line of its option.
func TestImpossibleGrids(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	for options, want := range map[string]string{
		"{tp_size: 5}":                       "tp_size is 5: the 4 heads of this model can be split over 1 to 4 devices",
		"{pp_size: 5}":                       "pp_size is 5: the 4 blocks of this model can be split over 1 to 4 devices",
		"{pp_size: 0}":                       "auto or a whole number of 1 or more",
		"{tp_size: two}":                     "auto or a whole number of 1 or more",
		"{tensor_size: 2}":                   "tensor_size",
		"{tp_size: 3, pp_size: 2}":           "denoise wants 6 workers for a batch, 6 to hold its weights, the job has 2",
		"{pp_size: 2, sequence_parallel: 2}": "denoise wants 4 workers for a batch, 2 to hold its weights, the job has 2",
	} {
		j := base
		j.Stages = "[encode_text, denoise: " + options + ", decode_vae, guard, encode_video]"
		j.Sets = []string{"resources.workers=2"}
		_, err := j.Open()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("denoise %s: got error %v, want %q", options, err, want)
			continue
		}
		if !strings.HasPrefix(err.Error(), "job.yaml:5:") {
			t.Errorf("denoise %s: the error does not have the line: %v", options, err)
		}
	}
	base.Stages = "[encode_text: {pp_size: 3}, denoise, decode_vae, guard, encode_video]"
	if _, err := base.Open(); err == nil || !strings.Contains(err.Error(), "the 2 blocks of this model") {
		t.Errorf("a text encoder of 2 layers on 3 devices: got error %v", err)
	}
}

// watched counts the sets that a stage runs on, and their failures.
type watched struct {
	stages.Stage
	sets, failures *atomic.Int64
	ranks          int
}

func (w watched) Capabilities() stages.Capabilities {
	can, inner := spreading(w.Stage, w.runSet), w.Stage.Capabilities().Loading
	can.Loading = &stages.Loading{Load: func(kernels.Backend) error { return nil }, Shards: inner.Shards,
		LoadShard: inner.LoadShard}
	return can
}

func (w watched) runSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	err := w.Stage.Capabilities().Spread.Run(ctx, set, batch)
	if err != nil || set.Ranks() != w.ranks {
		w.failures.Add(1)
	}
	w.sets.Add(1)
	return err
}

// TestGridsAreUsed: batches run on the requested sets, and not on a single device after a set has failed.
func TestGridsAreUsed(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	base.Stages, base.Sets = gridStages, []string{"resources.workers=4", "resources.batch_size=1"}
	for _, name := range []string{"encode_text", "denoise"} {
		var sets, failures atomic.Int64
		spec, _ := stages.Find(catalog.All(), name)
		open := spec.New
		spec.New = func(m *stages.Model, o stages.Options) (stages.Stage, error) {
			s, err := open(m, o)
			if err != nil {
				return nil, err
			}
			return watched{s, &sets, &failures, 4}, nil
		}
		j := base.Elsewhere(t)
		j.Replace = &spec
		j.Sets = append(slices.Clone(base.Sets), "stages."+name+".tp_size=2", "stages."+name+".pp_size=2")
		j.MustRun(t)
		if sets.Load() != 4 || failures.Load() > 0 {
			t.Errorf("%s: the batches ran on %d sets of 4 devices, %d of them failed; want a set for each of 4 rows", name, sets.Load(), failures.Load())
		}
	}
}

// TestSameBytesStreamed: a job whose weights do not fit into memory streams blocks, reports this in its layout, and produces equal
// results. If streaming is not enough, the error has the line of the option.
func TestSameBytesStreamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	jobtest.Must(t, os.CopyFS(dir, tiny.Files()))
	base := jobtest.NewJob(t, "id,prompt\na,a red circle moves left\n")
	base.Sets = []string{"model=" + dir} // tables contain the address of the model
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	size := []string{"model=" + dir, "defaults.height=64", "defaults.width=64", "defaults.num_frames=16"}
	large := base.Elsewhere(t)
	large.Sets = size
	large.MustRun(t)
	wide := jobtest.MustRead(t, large.Out)
	broad := []string{"model=" + dir, "defaults.height=96", "defaults.width=96", "defaults.num_frames=16"}
	largest := base.Elsewhere(t)
	largest.Sets = broad
	largest.MustRun(t)
	square := jobtest.MustRead(t, largest.Out)
	small := base.Elsewhere(t)
	small.Sets = append(slices.Clone(size), "resources.memory=16MiB")
	if _, err := small.Run(); err == nil || !strings.Contains(err.Error(), "--set resources.memory=16MiB: the weights and") ||
		!strings.Contains(err.Error(), "fix: set resources.memory to") {
		t.Errorf("a job with too little memory for streaming: got error %v", err)
	}
	for _, c := range []struct {
		sets     []string
		want     jobtest.Output
		streamed bool
	}{
		{[]string{"model=" + dir, "resources.memory=32MiB"}, want, false},
		{append(slices.Clone(size), "resources.memory=18MiB"), wide, true},
		{append(slices.Clone(size), "resources.memory=64MiB"), wide, false},
		{append(slices.Clone(broad), "resources.workers=2", "resources.memory=24MiB", "stages.denoise.tp_size=2"), square, true},
	} {
		j := base.Elsewhere(t)
		j.Sets = c.sets
		opened, err := j.Open()
		jobtest.Must(t, err)
		layouts, streamed := arranged(t, opened)
		if streamed != c.streamed {
			t.Errorf("%v: blocks are streamed: %v, want the contrary: %+v", c.sets, streamed, layouts[0].Placements)
		}
		_, err = opened.Run(t.Context(), nil)
		jobtest.Must(t, err)
		opened.Close()
		if wrong := c.want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%v: the output differs:\n%s", c.sets, strings.Join(wrong, "\n"))
		}
	}
}

// TestSameBytesStreamedOverTCP: this process computes half of every block and a worker the other half, and neither has enough memory
// for its half of the weights.
func TestSameBytesStreamedOverTCP(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	jobtest.Must(t, os.CopyFS(dir, tiny.Files()))
	size := []string{"model=" + dir, "defaults.height=96", "defaults.width=96", "defaults.num_frames=16"}
	base := jobtest.NewJob(t, "id,prompt\na,a red circle moves left\n")
	base.Sets = size
	base.MustRun(t)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	addr, _ := jobtest.WorkerWith(t, cluster.Token(jobtest.WorkerToken), 1, 29<<20, nil)
	far := base.Elsewhere(t).OnHosts(token, strings.Join(size, " ")+" resources.memory=29MiB stages.denoise.tp_size=2", addr)
	far.MustRun(t)
	if wrong := jobtest.MustRead(t, base.Out).Diff(jobtest.MustRead(t, far.Out)); wrong != nil {
		t.Error(strings.Join(wrong, "\n"))
	}
}
