package report

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// numbered yields n rows with the ids a, b, ... and then err, if there is one.
func numbered(n int, err error) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		for i := range n {
			o := outcome{Element: &stages.Element{Row: schemas.PromptRow{ID: string(rune('a' + i))}}}
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(outcome{}, err)
		}
	}
}

// collector reads at most most rows, in files of two, like the writers of tables.
type collector struct {
	ids   []string
	end   error
	most  int
	files int
}

func (c *collector) read(rows iter.Seq2[outcome, error]) error {
	var err error
	c.files, err = splitFiles(firstOf(c.most, rows), 2, func(_ int, rows iter.Seq2[outcome, error]) error {
		for o, err := range rows {
			if err != nil {
				return err
			}
			c.ids = append(c.ids, o.Row.ID)
		}
		return nil
	})
	c.end = err
	return err
}

// TestFanOut: every reader gets all rows, and a reader may stop early.
func TestFanOut(t *testing.T) {
	a, b, few := &collector{most: 100}, &collector{most: 100}, &collector{most: 3}
	if err := fanOut(numbered(5, nil), a.read, few.read, b.read); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*collector{a, b} {
		if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(c.ids, want) || c.files != 3 {
			t.Errorf("read %v in %d files, want %v in 3", c.ids, c.files, want)
		}
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(few.ids, want) {
		t.Errorf("a reader of three rows read %v", few.ids)
	}
}

// TestFanOutFails: if the rows or any reader fail, no other reader may complete its table.
func TestFanOutFails(t *testing.T) {
	broken := errors.New("broken")
	a, b := &collector{most: 100}, &collector{most: 100}
	if err := fanOut(numbered(3, broken), a.read, b.read); !errors.Is(err, broken) || !errors.Is(a.end, broken) ||
		!errors.Is(b.end, broken) {
		t.Errorf("the rows fail: %v, the readers got %v and %v", err, a.end, b.end)
	}
	a, b = &collector{most: 100}, &collector{most: 100}
	fails := func(rows iter.Seq2[outcome, error]) error {
		for range firstOf(2, rows) { //nolint:revive // to the second row
		}
		return broken
	}
	if err := fanOut(numbered(5, nil), a.read, fails, b.read); !errors.Is(err, broken) || !errors.Is(a.end, broken) ||
		!errors.Is(b.end, broken) {
		t.Errorf("a reader fails: %v, the others got %v and %v", err, a.end, b.end)
	}
	if len(a.ids) > 2 || len(b.ids) > 2 {
		t.Errorf("the others read on: %v, %v", a.ids, b.ids)
	}
}

func TestFanOutWithoutReaders(t *testing.T) {
	if err := fanOut(numbered(5, nil)); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	if err := fanOut(numbered(0, broken), (&collector{most: 9}).read); !errors.Is(err, broken) {
		t.Errorf("rows that begin with an error: %v", err)
	}
}

// TestWriteReadsTwice: a report reads the input twice, to learn and to write, however many tables and pages there are.
func TestWriteReadsTwice(t *testing.T) {
	names := input{"a", "b", "x", "bad", "c"}
	j := newJob(t, names)
	j.settle(t, 40, "a", "b", "c", "x")
	passes := 0
	j.Rows = func(ctx context.Context) iter.Seq2[*stages.Element, error] {
		passes++
		return names.rows(ctx)
	}
	totals := j.written(t)
	if passes != 2 || totals.Done != 3 || totals.Failed != 2 {
		t.Errorf("%d passes for %d done and %d failed, want 2 for 3 and 2", passes, totals.Done, totals.Failed)
	}
	if passes = 0; j.WriteEarly(t.Context(), 0) != nil || passes != 2 {
		t.Errorf("%d passes while the job runs, want 2", passes)
	}
}
