package tables

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// ofShards lists the files in the output that belong to single shards.
func ofShards(t *testing.T, j jobtest.Job) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(j.Out, "[^.]*-of-*"))
	jobtest.Must(t, err)
	tables, err := filepath.Glob(filepath.Join(j.Out, "tables", "*", "*-of-*"))
	jobtest.Must(t, err)
	return append(files, tables...)
}

// TestLastShardJoins: after the last shard, the output is equal to that of one run over all rows. A shard that is started
// again has nothing to do, and new rows are joined again.
func TestLastShardJoins(t *testing.T) {
	j := jobtest.NewJob(t, shardTable())
	whole := j.Elsewhere(t)
	whole.MustRun(t)
	for i, shard := range []int{2, 0, 1} {
		r := j.Share(shard, 3).MustRun(t)
		if last := i == 2; r.Joined != last || (len(ofShards(t, j)) == 0) != last {
			t.Errorf("shard %d, which ended as number %d: it joined the tables: %v, files of single shards are %q", shard, i+1, r.Joined, ofShards(t, j))
		}
	}
	j.SameAs(t, whole)
	if r := j.Share(0, 3).MustRun(t); !r.NothingToDo || !r.Joined {
		t.Errorf("a rerun of a shard after the join: got %+v", r)
	}
	j.SameAs(t, whole)
	j.Sets = append(j.Sets, "defaults.seed=43")
	if r := j.Share(0, 3).MustRun(t); r.NothingToDo || r.Joined {
		t.Errorf("a shard with new rows: got %+v", r)
	}
}

// TestShardsThatEndTogether: if shards end at the same time, one of them joins.
func TestShardsThatEndTogether(t *testing.T) {
	base := jobtest.NewJob(t, shardTable())
	base.Specs, base.Stages, base.Sets = jobtest.Specs(jobtest.ToySpec()), "[toy]", []string{"output.write=[latents]"}
	whole := base.Elsewhere(t)
	whole.MustRun(t)
	for range 2 {
		j := base.Elsewhere(t)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				if _, err := j.Share(i, 3).Run(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if left := ofShards(t, j); len(left) > 0 {
			t.Errorf("no shard joined the tables, files of single shards are %s", strings.Join(left, ", "))
		}
		j.SameAs(t, whole)
	}
}

// reporting is a stage that calls a function for every row that it computes. Its latents are larger than the records of the
// ledger, so the ledger drops them after they are in the tables.
type reporting struct {
	jobtest.Toy
	told func()
}

func (a reporting) Check(*schemas.PromptRow) error { a.told(); return nil }

func (a reporting) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		e.Latents = stages.NewArray(4, 16, 4, 4)
	}
	return nil
}

// TestJoinedWhileChecking: if a shard checks whether it is the last while another run joins and removes files, the shard checks
// again.
func TestJoinedWhileChecking(t *testing.T) {
	j := jobtest.NewJob(t, shardTable())
	j.Stages, j.Sets = "[toy]", []string{"output.write=[latents]"}
	joins := 0
	spec := jobtest.ToySpec()
	spec.New = func(*stages.Model, stages.Options) (stages.Stage, error) {
		return reporting{told: func() {
			if joins == 0 && len(ofShards(t, j)) == 6 { // both shards are done: each has a summary, a table of latents and one of failures
				joins++
				j.MustRun(t)
			}
		}}, nil
	}
	j.Specs = jobtest.Specs(spec)
	j.Share(0, 2).MustRun(t)
	if r := j.Share(1, 2).MustRun(t); !r.Joined || joins != 1 {
		t.Errorf("the shard joined the tables: %v, after %d other runs", r.Joined, joins)
	}
	if left := ofShards(t, j); len(left) > 0 {
		t.Errorf("the tables were not joined, files of single shards are %s", strings.Join(left, ", "))
	}
	j.SameAs(t, j.Elsewhere(t))
}
