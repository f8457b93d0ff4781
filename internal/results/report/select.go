package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// Select marks the best rows of each group. Rows without the value are not among them; of equal ones the earlier is better.
type Select struct {
	Best int
	Of   string // prompt, id, or a carried column
	By   string // a reading or a carried column, with - before it where the lowest is best
}

// selectedColumn is the column of the tables that says which rows are selected.
const selectedColumn = "selected"

// selection is the rows that are selected, once learn has seen all.
type selection struct {
	*Select
	groups map[[16]byte][]ranked // the best so far, best first
}

type ranked struct {
	value float64
	at    int // number of the row
}

func newSelection(s *Select) *selection {
	if s == nil {
		return nil
	}
	return &selection{Select: s, groups: map[[16]byte][]ranked{}}
}

// learn takes a row that is done and parsed.
func (s *selection) learn(o *outcome) error {
	group, err := textOf(o, s.Of)
	if err != nil {
		return err
	}
	name, lowest := strings.CutPrefix(s.By, "-")
	text, read := o.result.Readings[name]
	if !read {
		if text, err = textOf(o, name); err != nil {
			return err
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v {
		return nil //nolint:nilerr // it has no value, and is not selected
	}
	if lowest {
		v = -v
	}
	sum := sha256.Sum256([]byte(group))
	key := [16]byte(sum[:16])
	best := s.groups[key]
	i, _ := slices.BinarySearchFunc(best, v, func(r ranked, v float64) int {
		if r.value == v { // behind those that are as good
			return -1
		}
		return cmp.Compare(v, r.value)
	})
	if i < s.Best {
		best = slices.Insert(best, i, ranked{v, o.at})
		s.groups[key] = best[:min(len(best), s.Best)]
	}
	return nil
}

// rows returns the numbers of the selected rows.
func (s *selection) rows() map[int]bool {
	all := map[int]bool{}
	for _, group := range s.groups {
		for _, r := range group {
			all[r.at] = true
		}
	}
	return all
}

// textOf is what a row has in common with others, "" where it has no such column.
func textOf(o *outcome, name string) (string, error) {
	switch name {
	case "prompt":
		return o.Row.Prompt, nil
	case "id":
		return o.Row.ID, nil
	}
	carried, err := schemas.Carried(o.Row.Extra)
	if err != nil {
		return "", fmt.Errorf("carried columns of %s: %w", o.Given.Source, err)
	}
	for _, c := range carried {
		if c.Name == name {
			var text string
			if json.Unmarshal(c.Value, &text) == nil {
				return text, nil
			}
			return c.Text(), nil
		}
	}
	return "", nil
}

// mark adds a column that says of each row whether it is one of those that was chosen.
func (c *Columns) mark(name string) { c.add("mark ", name, name, write.Boolean) }

// marked puts the value of a marked column into the values of a row.
func (c *Columns) marked(values []any, name string, is bool) {
	if i, there := c.index["mark "+name]; there {
		values[i] = &is
	}
}
