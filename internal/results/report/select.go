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

// Select selects the best rows of each group. A row without the value is never selected. Of rows with equal values, the earlier is
// better.
type Select struct {
	Best int    // number of rows per group
	Of   string // column whose value defines the groups: prompt, id, or a carried column
	By   string // reading or carried column that ranks the rows; with the prefix -, the lowest is best
}

// selectedColumn is the boolean column of the tables that tells which rows are selected.
const selectedColumn = "selected"

// selection holds the selected rows. It is complete after learn was called for all rows.
type selection struct {
	*Select
	groups map[[16]byte][]ranked // best rows so far, best first, by hash of the group
}

// ranked is a row with its value.
type ranked struct {
	value float64
	at    int // number of the row
}

// newSelection returns an empty selection; nil: the job selects no rows.
func newSelection(s *Select) *selection {
	if s == nil {
		return nil
	}
	return &selection{Select: s, groups: map[[16]byte][]ranked{}}
}

// learn adds a row. The row is done and parsed.
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
		return nil //nolint:nilerr // a row without a value is not selected
	}
	if lowest {
		v = -v
	}
	sum := sha256.Sum256([]byte(group))
	key := [16]byte(sum[:16])
	best := s.groups[key]
	i, _ := slices.BinarySearchFunc(best, v, func(r ranked, v float64) int {
		if r.value == v { // after earlier rows with an equal value
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

// textOf returns a row's value of a column as text; "": the row does not have the column.
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

// addFlag adds a boolean column whose values setFlag sets.
func (c *Columns) addFlag(name string) { c.add("flag ", name, name, write.Boolean) }

// setFlag sets the value of a column of addFlag in the values of a row.
func (c *Columns) setFlag(values []any, name string, is bool) {
	if i, there := c.index["flag "+name]; there {
		values[i] = &is
	}
}
