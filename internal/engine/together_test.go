package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// gathering is a job whose first stage takes batches together and whose second takes ten seconds for each row.
type gathering struct {
	*Engine
	texts []int // rows of each run of the first stage
	clips int   // rows that the second stage has finished
}

// newGathering returns a job with a first stage that takes up to together rows at once; limit of them fit in memory. A bad
// row fails, and so do all rows that are taken together with it.
func newGathering(t *testing.T, workers, together, limit int, bad ...string) *gathering {
	g := &gathering{}
	text := step("text", fakeStage{
		can: stages.Capabilities{Together: func(*schemas.PromptRow) int { return together }},
		need: func(_ *schemas.PromptRow, n int) (int64, error) {
			return int64(n * 1000 / limit), nil
		},
		run: func(_ context.Context, batch []*stages.Element) error {
			g.texts = append(g.texts, len(batch))
			time.Sleep(time.Second)
			for _, el := range batch {
				latent(el)
				if slices.Contains(bad, el.Row.Prompt) {
					return errors.New("this text is bad")
				}
			}
			return nil
		}})
	clip := step("clip", fakeStage{run: func(_ context.Context, batch []*stages.Element) error {
		time.Sleep(10 * time.Second)
		g.clips += len(batch)
		return nil
	}})
	clip.Spec.In = stages.KindLatents
	g.Engine = newEngine(t, workers, text, clip)
	return g
}

// run puts so many rows through, each a batch of its own, and returns what came out.
func (g *gathering) run(t *testing.T, rows int) []*stages.Element {
	first, second, out := station(t, g.Engine, 0), station(t, g.Engine, 1), &collector{}
	down := func(b *stages.Batch) {
		if err := second.Submit(b, out.emit); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rows {
		first.give(t, down, fmt.Sprint(i))
	}
	first.end(t, down)
	second.end(t, out.emit)
	return out.elements
}

// TestWaitingBatchesAreTakenTogether: a stage that goes over its weights once for many rows takes those that wait, as many as
// it asks for and memory has room for, while later stages keep their small batches.
func TestWaitingBatchesAreTakenTogether(t *testing.T) {
	for _, c := range []struct {
		name                     string
		workers, together, limit int
		want                     []int
	}{
		{"all but the first, which found the device free", 1, 16, 100, []int{1, 8}},
		{"no more than are of use", 1, 4, 100, []int{1, 4, 4}},
		{"no more than fit", 1, 16, 3, []int{1, 2, 2, 2, 2}},
		{"none", 1, 0, 100, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGathering(t, c.workers, c.together, c.limit)
				out := g.run(t, 9)
				if len(out) != 9 || g.clips != 9 || slices.ContainsFunc(out, func(e *stages.Element) bool { return e.Failed != nil }) {
					t.Errorf("%d rows came out, %d clips", len(out), g.clips)
				}
				if !slices.Equal(g.texts, c.want) {
					t.Errorf("texts were made of %v rows, want %v", g.texts, c.want)
				}
			})
		})
	}
}

// TestABadRowAmongMany: a row that fails those it is taken together with fails alone in the end.
func TestABadRowAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t, 1, 16, 100, "5")
		for _, e := range g.run(t, 9) {
			if (e.Failed != nil) != (e.Row.Prompt == "5") {
				t.Errorf("row %s: %v", e.Row.Prompt, e.Failed)
			}
		}
		if g.clips != 8 {
			t.Errorf("%d clips", g.clips)
		}
	})
}

// TestStopDropsTexts: a job that is asked to stop begins no clip of rows that only have their text.
func TestStopDropsTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t, 1, 16, 100)
		time.AfterFunc(15*time.Second, g.Schedule.Stop) // the second clip is at work
		if out := g.run(t, 9); len(out) != 2 || g.clips != 2 {
			t.Errorf("%d rows came out, %d clips were made", len(out), g.clips)
		}
	})
}
