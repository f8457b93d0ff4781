package tables

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
)

// shardRows is a number of rows such that each of two or three shards has some, whatever the keys are. Keys depend on the numeric
// class, so they differ between processors.
const shardRows = 40

// shardTable returns a table with shardRows rows.
func shardTable() string { return strings.ReplaceAll(jobtest.ManyRows(shardRows), "poison", "fine") }

// TestShardsShareAnOutput: two concurrent shards together produce the results of one run, in separate
// tables. A run over all rows then computes nothing and leaves only its own tables.
func TestShardsShareAnOutput(t *testing.T) {
	j := jobtest.NewJob(t, shardTable())
	done := make(chan pipelines.Result)
	for i := range 2 {
		shard := j
		shard.Opts.Shard, shard.Opts.Shards = i, 2
		go func() {
			r, err := shard.Run()
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
	}
	a, b := <-done, <-done
	if a.Done+b.Done != shardRows || a.Totals.Rows+b.Totals.Rows != shardRows || a.Done == 0 || b.Done == 0 {
		t.Errorf("the shards computed %d and %d of %d elements, and have %d and %d rows", a.Done, b.Done, shardRows, a.Totals.Rows, b.Totals.Rows)
	}
	whole := j.Elsewhere(t)
	whole.MustRun(t)
	want, got := jobtest.MustRead(t, whole.Out), jobtest.MustRead(t, j.Out)
	for _, table := range []string{"videos", "latents", "embeddings", "failures"} {
		if wrong := jobtest.DiffRows(table, want.Rows[table], got.Rows[table]); wrong != nil {
			t.Error(strings.Join(wrong, "\n"))
		}
	}
	j.Computes(t, 0)
	j.SameAs(t, j.Elsewhere(t))
	if files, err := filepath.Glob(filepath.Join(j.Out, "[^.]*-of-*")); err != nil || files != nil {
		t.Errorf("files of single shards are left: %q, %v", files, err)
	}
}

// TestOnlyShardsOfOneJobShareAnOutput: a second run gets an error that names the first, unless both are shards of the same
// job.
func TestOnlyShardsOfOneJobShareAnOutput(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.SameTable)
	cut := func(shard, shards int) jobtest.Job {
		c := j
		c.Opts.Shard, c.Opts.Shards = shard, shards
		return c
	}
	for _, c := range []struct {
		name          string
		first, second jobtest.Job
		together      bool
	}{
		{"twice the same", j, j, false},
		{"twice the same shard", cut(1, 2), cut(1, 2), false},
		{"two shards", cut(0, 2), cut(1, 2), true},
		{"all rows and a shard", j, cut(0, 2), false},
		{"a shard and all rows", cut(0, 2), j, false},
		{"shards of two and of three", cut(0, 2), cut(1, 3), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, err := c.first.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			second, err := c.second.Open()
			if err == nil {
				second.Close()
			}
			if (err == nil) != c.together {
				t.Fatalf("the second run: got error %v", err)
			}
			var locked *store.LockedError
			if err != nil && (!errors.As(err, &locked) || locked.Owner.PID != os.Getpid() ||
				fault.ExitCode(err) != fault.ExitTryAgain) {
				t.Errorf("the second run: got exit code %d, %v", fault.ExitCode(err), err)
			}
			first.Close()
			if again, err := c.second.Open(); err != nil {
				t.Errorf("the second run after the end of the first: got error %v", err)
			} else {
				again.Close()
			}
		})
	}
}
