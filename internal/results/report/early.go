package report

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"time"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/ledger"
	"latentbeam/stages"
)

// early is what a report that is written while the job runs has found at its first pass. Rows that are settled
// afterwards are for the next one, so that all its files speak of the same rows.
type early struct {
	again time.Duration // until the next one
	done  bits          // rows of the input, in order
	rows  int
	left  bool // a row was found that is not settled yet
}

// note takes the status of the next row of the input.
func (e *early) note(status ledger.Status) {
	if e == nil {
		return
	}
	if status == ledger.Done {
		e.done.set(e.rows)
	}
	e.rows++
	e.left = e.left || status == ledger.Absent
}

// bits is a set of numbers.
type bits []uint64

func (b *bits) set(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bits) has(i int) bool { return i/64 < len(b) && b[i/64]>>(i%64)&1 != 0 }

// WriteEarly writes what there is while rows are still computed: the tables of videos and failures, the pages with a
// note of an unfinished job, and complete new files of tensor tables. It removes nothing, and the final Write leaves
// the same files as without it. again is the time until it is called again. Nobody else uses j meanwhile; the ledger
// may grow.
func (j *Job) WriteEarly(ctx context.Context, again time.Duration) error {
	now := *j
	now.early = &early{again: again}
	totals := j.newTotals()
	made := now.tensors(ctx)
	settled := make([]tensorsMade, len(made))
	for i, t := range made {
		settled[i] = settledTensors{t, now.early}
	}
	if err := now.failures(ctx, &totals, settled); err != nil {
		return err
	}
	var readers []rowReader
	for _, t := range made {
		readers = append(readers, func(rows iter.Seq2[outcome, error]) error { return t.gain(ctx, rows) })
	}
	if now.Keep[stages.KindVideo] {
		readers = append(readers, now.readersOfVideos(ctx, &totals)...)
	}
	return share(now.settled(ctx), readers...)
}

// settledTensors takes the rows before the first that is not settled: which file the others belong to is not known yet.
type settledTensors struct {
	tensorsMade
	early *early
}

func (t settledTensors) add(o *outcome, row []byte) error {
	if t.early.left {
		return nil
	}
	return t.tensorsMade.add(o, row)
}

// gain writes the files that are full and not there. Those that are there, of an earlier run, stay until the end, for
// they may hold tensors that nothing else has; where earlier releases wrote them, the end writes all.
func (t *tensorTable[T]) gain(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	if t.rows == 0 || t.rows < t.perFile {
		return nil
	}
	names, err := tables.All(ctx, t.job.Output.Store, t.name)
	if err != nil || slices.ContainsFunc(names, tables.InOldPlace) {
		return err
	}
	if t.rows%t.perFile == 0 {
		t.close()
	}
	t.digests = t.wanted(ctx)
	full := t.rows / t.perFile
	_, err = inFiles(first(only(ledger.Done, rows), full*t.perFile), t.perFile, func(i int, rows iter.Seq2[outcome, error]) error {
		name := t.job.tableName(t.name, i)
		_, err := t.job.Output.Store.Stat(ctx, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, drain(rows))
		}
		return t.writeFile(ctx, i, rows)
	})
	return err
}

// first yields the first n rows.
func first(rows iter.Seq2[outcome, error], n int) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		k := 0
		for o, err := range rows {
			if k == n || !yield(o, err) {
				return
			}
			if k++; k == n {
				return
			}
		}
	}
}
