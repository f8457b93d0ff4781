package gallery

import (
	"fmt"
	"testing"
)

func TestCausesGroupByReason(t *testing.T) {
	var c Causes
	for i, height := range []int{100, 104, 108} {
		c.Add("row", "denoise", Failure{Source: fmt.Sprint("p.csv:", i),
			Reason: fmt.Sprintf("height is %d: give a multiple of 16, such as 96", height)})
	}
	c.Add("row", "read", Failure{Source: "p.csv:9", Reason: `p.csv:9: seed: "x y" is not a whole number`})
	c.Add("row", "denoise", Failure{Reason: "width is 9: give a multiple of 16, such as 96"})
	got := c.shown()
	if len(got) != 3 || got[0].Reason != "height is …: give a multiple of 16, such as 96" || got[0].Rows != "3 rows" {
		t.Fatalf("causes %+v", got)
	}
	if got[0].Listed[1].Reason != "height is 104: give a multiple of 16, such as 96" {
		t.Errorf("a row of several says %q", got[0].Listed[1].Reason)
	}
	if got[1].Reason != `seed: "x y" is not a whole number` || got[1].Listed[0].Reason != "" {
		t.Errorf("a single row: %+v", got[1])
	}
	if c.Total != 5 {
		t.Errorf("%d rows, want 5", c.Total)
	}
}

func TestCausesAreBounded(t *testing.T) {
	var c Causes
	for i := range 50 {
		for range 300 {
			c.Add(fmt.Sprint("class", i), "s", Failure{Reason: "r"})
		}
	}
	got := c.shown()
	if len(got) != maxCauses || len(got[0].Listed) != maxListed || got[0].More != "and 200 more rows" {
		t.Errorf("%d causes, the first lists %d rows and %q", len(got), len(got[0].Listed), got[0].More)
	}
	if c.Total != 15000 || c.Others != 3000 {
		t.Errorf("total %d, others %d", c.Total, c.Others)
	}
}
