package condition

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

const golden = "../../../testdata/golden/condition.json"

// TestApply compares masks and latents with the reference's own function.
func TestApply(t *testing.T) {
	var cases []struct {
		Frames     int
		References []int
		Strategy   string `json:"mask_strategy"`
		Loop       int
		Align      int
		Masks      []float32
		Z          []float32
	}
	nntest.Decode(t, nntest.Golden(t, golden)["masks"], &cases)
	for _, c := range cases {
		z := array("z", c.Frames)
		var refs []*stages.Array
		for i, n := range c.References {
			refs = append(refs, array(fmt.Sprintf("ref.%d", i), n))
		}
		pieces, err := Parse(c.Strategy)
		if err != nil {
			t.Fatal(err)
		}
		masks, err := Apply(z, refs, pieces, c.Loop, c.Align)
		if err != nil {
			t.Fatal(err)
		}
		if diff, _ := nntest.MaxDiff(masks, c.Masks); diff > 1e-7 {
			t.Errorf("%q in %d frames, align %d: masks %v, want %v", c.Strategy, c.Frames, c.Align, masks, c.Masks)
		}
		if diff, _ := nntest.MaxDiff(z.Data, c.Z); diff > 1e-7 {
			t.Errorf("%q in %d frames, align %d: other latents", c.Strategy, c.Frames, c.Align)
		}
	}
}

func array(name string, frames int) *stages.Array {
	return &stages.Array{Shape: []int{2, frames, 1, 3}, Data: nntest.Hash(name, 1, 2, frames, 1, 3)}
}

func TestNearest(t *testing.T) {
	var cases [][4]int
	nntest.Decode(t, nntest.Golden(t, golden)["nearest"], &cases)
	for _, c := range cases {
		if got := nearest(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("the multiple of %d nearest to %d below %d is %d, want %d", c[1], c[0], c[2], got, c[3])
		}
	}
}

func TestContinue(t *testing.T) {
	var cases []struct {
		Strategy                 string `json:"mask_strategy"`
		References, Loop, Length int
		Edit                     float64
		Out                      string
	}
	nntest.Decode(t, nntest.Golden(t, golden)["generated"], &cases)
	for _, c := range cases {
		got, err := Parse(Continue(c.Strategy, c.Loop, c.References, c.Length, c.Edit))
		want, wantErr := Parse(c.Out)
		if err != nil || wantErr != nil || !slices.Equal(got, want) {
			t.Errorf("%q continues as %v, want %q; %v", c.Strategy, got, c.Out, err)
		}
	}
}

// TestSegments compares the prompts of every clip with the reference's.
func TestSegments(t *testing.T) {
	var cases [][2]any
	nntest.Decode(t, nntest.Golden(t, golden)["loops"], &cases)
	for _, c := range cases {
		segments, err := Segments(c[0].(string))
		if err != nil {
			t.Fatal(err)
		}
		for loop, want := range c[1].([]any) {
			if got := segments[segmentOf(segments, loop)].Text; got != want {
				t.Errorf("%q in clip %d: %q, want %q", c[0], loop, got, want)
			}
		}
	}
	for _, bad := range []string{"|0|a|b", "|0|a|x|b", "|0|a|0|b", "|0|a|2|b|1|c", "|0|a|2"} {
		if s, err := Segments(bad); err == nil {
			t.Errorf("%q is %v", bad, s)
		}
	}
}

func TestWhatIsWrong(t *testing.T) {
	z, refs := array("z", 8), []*stages.Array{array("r", 5)}
	other := &stages.Array{Shape: []int{2, 5, 3, 1}, Data: make([]float32, 30)}
	for strategy, want := range map[string]string{
		"0,1":                                 "takes reference 1, but there are 1",
		"0,0,5":                               "begins at latent frame 5 of the reference, which has 5",
		"0,0,-6":                              "begins at latent frame -6 of the reference",
		"0,0,0,8":                             "begins at latent frame 8 of the clip, which has 8",
		"a":                                   `group "a" has "a", which is not a whole number; write loop,reference`,
		"0;":                                  `group "" has ""`,
		"0,0,0,0,1,2":                         `ends in "2", which is not a part`,
		"0,0,0,0,1,0,0":                       "has 7 values",
		"-1":                                  "negative",
		"0,0,0,0,1,nan":                       "is not a part",
		strings.Repeat("0;", maxPieces) + "0": "groups, more than",
	} {
		pieces, err := Parse(strategy)
		if err == nil {
			_, err = Apply(z, refs, pieces, 0, 0)
		}
		nntest.WantError(t, strategy, err, want)
	}
	_, err := Apply(z, []*stages.Array{other}, []Piece{{Length: 1}}, 0, 0)
	nntest.WantError(t, "another size", err, "has latents of shape [2 5 3 1]")
}

// segmentOf returns the number of the segment that holds for a clip.
func segmentOf(segments []Segment, loop int) int {
	n := 0
	for i, s := range segments {
		if s.Loop <= loop {
			n = i
		}
	}
	return n
}
