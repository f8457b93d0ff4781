package pipelines_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// share is shard i of n of the job.
func (j job) share(i, n int) job {
	j.opts.Shard, j.opts.Shards = i, n
	return j
}

// ofShards lists what is in the output that shards wrote for themselves.
func (j job) ofShards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(j.out, "[^.]*-of-*"))
	must(t, err)
	tables, err := filepath.Glob(filepath.Join(j.out, "tables", "*", "*-of-*"))
	must(t, err)
	return append(files, tables...)
}

// TestLastShardJoins: whichever shard ends last leaves the output as one run over all rows does; a shard started
// again has nothing to do, and new rows are joined again.
func TestLastShardJoins(t *testing.T) {
	j := newJob(t, shardTable())
	whole := j.elsewhere(t)
	whole.mustRun(t)
	for i, shard := range []int{2, 0, 1} {
		r := j.share(shard, 3).mustRun(t)
		if last := i == 2; r.Joined != last || (len(j.ofShards(t)) == 0) != last {
			t.Errorf("shard %d, the %d. to end: joined %v, files of shards %q", shard, i+1, r.Joined, j.ofShards(t))
		}
	}
	j.sameAs(t, whole)
	if r := j.share(0, 3).mustRun(t); !r.NothingToDo || !r.Joined {
		t.Errorf("a shard that was joined: %+v", r)
	}
	j.sameAs(t, whole)
	j.sets = append(j.sets, "defaults.seed=43")
	if r := j.share(0, 3).mustRun(t); r.NothingToDo || r.Joined {
		t.Errorf("a shard with other rows: %+v", r)
	}
}

// TestShardsThatEndTogether: one of them joins, however they meet.
func TestShardsThatEndTogether(t *testing.T) {
	base := newJob(t, shardTable())
	base.specs, base.stages, base.sets = specs(toySpec()), "[toy]", []string{"output.write=[latents]"}
	whole := base.elsewhere(t)
	whole.mustRun(t)
	for range 2 {
		j := base.elsewhere(t)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				if _, err := j.share(i, 3).run(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if left := j.ofShards(t); len(left) > 0 {
			t.Errorf("not joined: %s", strings.Join(left, ", "))
		}
		j.sameAs(t, whole)
	}
}

// asked is a model that tells of every row that it is asked about. Its latents are larger than what the ledger says of
// a row, which gives them up to the tables.
type asked struct {
	toy
	told func()
}

func (a asked) Check(*schemas.PromptRow) error { a.told(); return nil }

func (a asked) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		e.Latents = stages.NewArray(4, 16, 4, 4)
	}
	return nil
}

// TestJoinedWhileLooking: a shard that looks whether it is the last, while another run joins and removes what it reads,
// looks again.
func TestJoinedWhileLooking(t *testing.T) {
	j := newJob(t, shardTable())
	j.stages, j.sets = "[toy]", []string{"output.write=[latents]"}
	joins := 0
	spec := toySpec()
	spec.New = func(*stages.Model, stages.Options) (stages.Stage, error) {
		return asked{told: func() {
			if joins == 0 && len(j.ofShards(t)) == 6 { // two summaries, two tables of latents, two of failures: both are done
				joins++
				j.mustRun(t)
			}
		}}, nil
	}
	j.specs = specs(spec)
	j.share(0, 2).mustRun(t)
	if r := j.share(1, 2).mustRun(t); !r.Joined || joins != 1 {
		t.Errorf("joined %v, %d other runs", r.Joined, joins)
	}
	if left := j.ofShards(t); len(left) > 0 {
		t.Errorf("not joined: %s", strings.Join(left, ", "))
	}
	j.sameAs(t, j.elsewhere(t))
}
