package memory

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
	var l Learned
	const s = "denoise"
	l.Measure(s, &guided, 100, 300)
	l.OutOfMemory(s, &guided, Shortage{Elements: 8, Limit: 1000})
	l.Measure(s, &plain, 100, 120)
	l.Measure(s, &longer, 100, 200)
	l.OutOfMemory(s, &longer, Shortage{Elements: 4, Limit: 1000})
	want := []Fact{
		{Stage: "denoise", Shape: "64x32x16", Rows: "120 tokens", Estimated: 100, Measured: 120},
		{Stage: "denoise", Shape: "64x32x16", Rows: "120 tokens, guided", Estimated: 100, Measured: 300, Fails: 2, Most: 2,
			Limit: 1000},
	}
	facts := l.Facts()
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
	var next Learned
	next.Recall(facts, 1000)
	for name, c := range map[string]struct {
		row  schemas.PromptRow
		need int64 // of what is estimated at 100
		fits int   // of 9
	}{"guided": {guided, 300, 2}, "plain": {plain, 120, 9}, "longer": {longer, 300, 2}} {
		need, fits := next.Correct("denoise", &c.row, 100), next.Fits("denoise", &c.row, 9)
		if need != c.need || fits != c.fits {
			t.Errorf("%s: needs %d, %d fit; want %d and %d", name, need, fits, c.need, c.fits)
		}
	}
}

// TestRecallOfAnEarlierVersion: a summary that did not tell rows of one size apart holds for all of them, the worst
// of its facts, until something is known of them.
func TestRecallOfAnEarlierVersion(t *testing.T) {
	guided, plain, _ := kinds()
	var l Learned
	l.Recall([]Fact{
		{Stage: "denoise", Shape: "64x32x16", Estimated: 100, Measured: 300, Most: 3, Limit: 1000},
		{Stage: "denoise", Shape: "64x32x16", Estimated: 100, Measured: 120, Least: 2, Limit: 1000},
	}, 1000)
	for _, row := range []schemas.PromptRow{guided, plain} {
		const s = "denoise"
		if n := l.Correct(s, &row, 100); n != 300 || l.Fits(s, &row, 9) != 3 || l.Devices(s, &row) != 2 {
			t.Errorf("%d bytes, %d elements, %d devices", n, l.Fits(s, &row, 9), l.Devices(s, &row))
		}
	}
	l.Measure("denoise", &plain, 100, 50)
	facts := l.Facts()
	if len(facts) != 1 || facts[0].Rows != "120 tokens" || facts[0].Measured != 300 {
		t.Errorf("passed on as %+v", facts)
	}
}
