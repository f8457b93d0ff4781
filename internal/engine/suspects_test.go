package engine

import (
	"fmt"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestSuspectsAreDivided: the suspects of a death are computed in up to sixteen groups, so few suspects are computed alone. Rows of
// different shapes are never in one group.
func TestSuspectsAreDivided(t *testing.T) {
	for _, c := range []struct {
		rows, among, shapes int
		want                []int
	}{{3, 3, 1, []int{1, 1, 1}}, {64, 64, 1, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}}, {8, 64, 2, []int{4, 4}},
		{5, 40, 1, []int{2, 2, 1}}} {
		s := suspects{known: map[schemas.Key]Suspect{}}
		for i := range c.rows {
			e := &stages.Element{Key: schemas.Key{byte(i)}, Row: schemas.PromptRow{Height: 16 * (1 + i*c.shapes/c.rows)}}
			s.known[e.Key] = Suspect{Among: c.among}
			if !s.retain(e) {
				t.Fatal("a suspect is not retained for the end")
			}
		}
		var sizes []int
		for _, group := range s.groups() {
			sizes = append(sizes, len(group))
		}
		if fmt.Sprint(sizes) != fmt.Sprint(c.want) {
			t.Errorf("%+v: groups of %v", c, sizes)
		}
	}
	if (&suspects{}).retain(&stages.Element{}) {
		t.Error("a row that is not a suspect is retained")
	}
}
