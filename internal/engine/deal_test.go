package engine

import (
	"bytes"
	"context"
	"iter"
	"math/rand/v2"
	"testing"

	"latentbeam/internal/engine/coder"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// given is a source of rows.
type given []*stages.Element

func (g given) Rows(context.Context, bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for _, e := range g {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestDeal: rows that are dealt meet in full batches, and each comes out once. The parts get blocks in turn, as Flink gives
// them, and none is without where a batch would take them all.
func TestDeal(t *testing.T) {
	const size = 8
	for _, c := range []struct {
		rows, shapes, parts int
		least               float64 // that the fill must be
	}{
		{1000, 1, 12, 0.99}, {1000, 5, 12, 0.95}, {1000, 20, 12, 0.85}, {1000, 5, 48, 0.95}, {20000, 20, 48, 0.95}, {40000, 20, 2, 0.95},
		{7, 3, 4, 0}, {0, 1, 4, 0}, {24, 1, 8, 0}, // less than a batch for each part
	} {
		e := newEngine(t, 1, step("s", fakeStage{}))
		e.Schedule.MaxBatch = size
		rng := rand.New(rand.NewPCG(1, 2))
		rows := make(given, c.rows)
		for i := range rows {
			rows[i] = element(8 * (1 + rng.IntN(c.shapes)))
			rows[i].Row.ID = string(rune(i))
			seed := int64(i)
			rows[i].Row.Seed = &seed
		}
		e.Source = rows
		parts := make([]*Buckets, c.parts)
		for i := range parts {
			parts[i] = e.Buckets()
		}
		out, blocks, largest, seen := &batches{}, 0, 0, map[schemas.Key]bool{}
		err := e.Deal(t.Context(), Dealing{Rows: int64(c.rows), Parts: c.parts, Twice: func(schemas.Key) bool { return false },
			Away: func(*schemas.PromptRow) {}, Put: func(b *stages.Batch) error {
				data, err := coder.PackBlock(b)
				if err != nil {
					return err
				}
				back, err := coder.UnpackBlock(data)
				if err != nil {
					return err
				}
				for _, e := range back.Elements {
					if schemas.BucketOf(e.Row) != b.Bucket || seen[e.Key] {
						t.Errorf("%+v: row %s of block %+v", c, e.Key, b.Bucket)
					}
					seen[e.Key] = true
					parts[blocks%c.parts].Add(e, out.emit)
				}
				blocks, largest = blocks+1, max(largest, len(b.Elements))
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			p.Close(out.emit)
		}
		if len(seen) != c.rows {
			t.Fatalf("%+v: %d rows came out", c, len(seen))
		}
		if c.rows == 0 {
			continue
		}
		if used := min(blocks, c.parts); used < min(c.parts, c.rows)/2 {
			t.Errorf("%+v: %d parts have rows", c, used)
		}
		fill := float64(c.rows) / float64(size*len(*out))
		t.Logf("%d rows of %d shapes, %d parts: %d blocks of at most %d rows, batches are full to %.2f", c.rows, c.shapes,
			c.parts, blocks, largest, fill)
		if fill < c.least {
			t.Errorf("%+v: batches are full to %.2f", c, fill)
		}
	}
}

// TestDealOnce: of equal rows one is dealt, and none that the ledger has. A block that was damaged is noticed.
func TestDealOnce(t *testing.T) {
	e := newEngine(t, 1, step("s", fakeStage{}))
	var rows given
	for _, prompt := range []string{"a", "b", "a", "c", "a", "b"} {
		rows = append(rows, e.elements(prompt)...)
	}
	e.Source = rows
	var dealt []string
	var packed []byte
	asked := 0
	deal := func() {
		t.Helper()
		dealt = nil
		err := e.Deal(t.Context(), Dealing{Twice: func(schemas.Key) bool { asked++; return true }, Away: func(*schemas.PromptRow) {},
			Put: func(b *stages.Batch) (err error) {
				for _, e := range b.Elements {
					dealt = append(dealt, e.Row.Prompt)
				}
				packed, err = coder.PackBlock(b)
				return err
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
	deal()
	if len(dealt) != 3 || e.Progress.Shared.Load() != 3 || asked != 6 {
		t.Errorf("dealt %q, %d shared, asked %d times", dealt, e.Progress.Shared.Load(), asked)
	}
	rowsOf := func(packed []byte) []byte {
		b, err := coder.UnpackBlock(packed)
		if err != nil {
			return nil
		}
		data, err := coder.EncodeBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want := rowsOf(packed)
	if want == nil {
		t.Error("the block cannot be read")
	}
	for i := range packed {
		wrong := bytes.Clone(packed)
		wrong[i] ^= 0x10
		if got := rowsOf(wrong); got != nil && !bytes.Equal(got, want) {
			t.Errorf("byte %d was changed: nobody noticed", i)
		}
	}
}
