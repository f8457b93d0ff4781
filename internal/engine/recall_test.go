package engine

import (
	"encoding/json"
	"slices"
	"testing"

	"latentbeam/schemas"
)

// kinds are rows of one size: under guidance, without, and the first with more steps.
func kinds() (guided, plain, longer schemas.PromptRow) {
	one := 1.0
	guided = schemas.PromptRow{Width: 64, Height: 32, NumFrames: 16, NumInferenceSteps: 2, MaxSequenceLength: 120}
	plain, longer = guided, guided
	plain.GuidanceScale, longer.NumInferenceSteps = &one, 30
	return guided, plain, longer
}

// TestFactsOfOneSize: rows of one size that need other memory have facts of their own; those that differ in steps
// alone share one, the worse.
func TestFactsOfOneSize(t *testing.T) {
	guided, plain, longer := kinds()
	e := newEngine(t, 1, step("denoise", fakeStage{}))
	s := &e.Steps[0]
	e.learned.measure(s, &guided, 100, 300)
	e.learned.outOfMemory(s, &guided, shortage{elements: 8, limit: 1000})
	e.learned.measure(s, &plain, 100, 120)
	e.learned.measure(s, &longer, 100, 200)
	e.learned.outOfMemory(s, &longer, shortage{elements: 4, limit: 1000})
	want := []MemoryFact{
		{Stage: "denoise", Shape: "64x32x16", Rows: "120 tokens", Estimated: 100, Measured: 120},
		{Stage: "denoise", Shape: "64x32x16", Rows: "120 tokens, guided", Estimated: 100, Measured: 300, Fails: 2, Most: 2,
			Limit: 1000},
	}
	facts := e.MemoryFacts()
	if !slices.Equal(facts, want) {
		t.Fatalf("%+v", facts)
	}
	text, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	facts = nil
	if err := json.Unmarshal(text, &facts); err != nil {
		t.Fatal(err)
	}
	next := newEngine(t, 1, step("denoise", fakeStage{}))
	next.Recall(facts)
	for name, c := range map[string]struct {
		row  schemas.PromptRow
		need int64 // of what is estimated at 100
		fits int   // of 9
	}{"guided": {guided, 300, 2}, "plain": {plain, 120, 9}, "longer": {longer, 300, 2}} {
		need, fits := next.learned.correct(&next.Steps[0], &c.row, 100), next.learned.fits(&next.Steps[0], &c.row, 9)
		if need != c.need || fits != c.fits {
			t.Errorf("%s: needs %d, %d fit; want %d and %d", name, need, fits, c.need, c.fits)
		}
	}
}

// TestRecallOfAnEarlierVersion: a summary that did not tell rows of one size apart holds for all of them, the worst
// of its facts, until something is known of them.
func TestRecallOfAnEarlierVersion(t *testing.T) {
	guided, plain, _ := kinds()
	e := newEngine(t, 1, step("denoise", fakeStage{}))
	e.Recall([]MemoryFact{
		{Stage: "denoise", Shape: "64x32x16", Estimated: 100, Measured: 300, Most: 3, Limit: 1000},
		{Stage: "denoise", Shape: "64x32x16", Estimated: 100, Measured: 120, Least: 2, Limit: 1000},
	})
	for _, row := range []schemas.PromptRow{guided, plain} {
		s := &e.Steps[0]
		if n := e.learned.correct(s, &row, 100); n != 300 || e.learned.fits(s, &row, 9) != 3 || e.learned.devices(s, &row) != 2 {
			t.Errorf("%d bytes, %d elements, %d devices", n, e.learned.fits(s, &row, 9), e.learned.devices(s, &row))
		}
	}
	e.learned.measure(&e.Steps[0], &plain, 100, 50)
	facts := e.MemoryFacts()
	if len(facts) != 1 || facts[0].Rows != "120 tokens" || facts[0].Measured != 300 {
		t.Errorf("passed on as %+v", facts)
	}
}
