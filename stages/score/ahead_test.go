package score

import (
	"slices"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestGroup: adjacent small videos are decoded together, other videos alone.
func TestGroup(t *testing.T) {
	of := func(side, frames int) *stages.Element {
		return &stages.Element{Row: schemas.PromptRow{Height: side, Width: side, NumFrames: frames}, Video: &schemas.Encoded{}}
	}
	var all []*stages.Element
	for range maxPerProgram + 2 {
		all = append(all, of(64, 16))
	}
	all = append(all, of(480, 81), of(0, 0), of(64, 16), of(64, 16)) // large, of unknown size, small
	groups, largest := group(all)
	var got []int
	at := 0
	for _, g := range groups {
		got = append(got, len(g))
		for _, e := range g {
			if e != all[at] {
				t.Errorf("element %d is not in its place", at)
			}
			at++
		}
	}
	if want := []int{maxPerProgram, 2, 1, 1, 2}; !slices.Equal(got, want) || largest != 480*480*81*3 {
		t.Errorf("groups of %v, want %v, the largest of %d bytes", got, want, largest)
	}
}
