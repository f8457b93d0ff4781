package forecast

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages"
)

// TestSharedIDs: equal ids, and ids with the same file name in an export, cause a warning before anything is
// computed.
func TestSharedIDs(t *testing.T) {
	for _, c := range []struct {
		ids  []string
		want string // a part of the warning, "": none
	}{
		{[]string{"a", "b", "c"}, ""},
		{[]string{"a", "b", "a"}, `1 row has the id of another row, such as "a" in p.csv:1 and p.csv:3`},
		{[]string{"s1/a", "b", "s1-a"}, `1 row has an id that gives the same name of files as another one, such as "s1/a" and "s1-a" in p.csv:1 and p.csv:3`},
	} {
		d := NewDoubts(false, false, false)
		var all []*stages.Element
		for i, id := range c.ids {
			e := &stages.Element{}
			e.Given.ID, e.Given.Source = id, "p.csv:"+string(rune('1'+i))
			all = append(all, e)
			d.See(e)
		}
		rows := func(yield func(*stages.Element, error) bool) {
			for e := range slices.Values(all) {
				if !yield(e, nil) {
					return
				}
			}
		}
		got, err := d.Warnings(iter.Seq2[*stages.Element, error](rows))
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(got, "\n"); (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
			t.Errorf("ids %q: got the warning %q, want %q", c.ids, text, c.want)
		}
	}
}
