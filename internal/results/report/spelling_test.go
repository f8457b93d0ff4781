package report

import (
	"reflect"
	"testing"
)

// TestDistinct: values that differ in any field have different encodings. A later field that is not set changes nothing, nor does a
// field that is no part of a digest.
func TestDistinct(t *testing.T) {
	type row struct {
		A, B string
		N    *int64
		F    float64
		On   bool
		Late string `digest:"later"`
		Not  int    `digest:"-"`
	}
	spell := func(r row) string {
		v := reflect.ValueOf(r)
		return string(appendLater(appendValue(nil, v), "row.", v))
	}
	zero, one := int64(0), int64(1)
	seen := map[string]row{}
	for _, r := range []row{{}, {A: "ab", B: "c"}, {A: "a", B: "bc"}, {A: "abc"}, {N: &zero}, {N: &one}, {F: 1}, {F: -1}, {On: true},
		{Late: "x"}, {A: "x"}, {Late: "y"}} {
		text := spell(r)
		if other, ok := seen[text]; ok {
			t.Errorf("%+v and %+v have the same encoding", r, other)
		}
		seen[text] = r
	}
	type before struct {
		A, B string
		N    *int64
		F    float64
		On   bool
	}
	if got := string(appendValue(nil, reflect.ValueOf(before{A: "a"}))); got != spell(row{A: "a"}) {
		t.Error("a later field that is not set changes the encoding of a row")
	}
	if spell(row{Not: 1}) != spell(row{}) {
		t.Error("a field that is no part of a digest changes the encoding of a row")
	}
}
