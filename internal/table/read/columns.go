package read

import (
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// carried marks a column that is no field: it goes to the output as it is.
const carried = -1

// names finds the field of a column name. It is made once for each table.
type names struct {
	byName  map[string]int    // lower-case name or alias -> field
	rank    map[string]int    // among the names of one field, the lowest wins
	mapping map[string]string // field -> column, from the configuration
	taken   map[string]int    // column -> field, the mapping turned round
	needed  int               // the field that every table must have
	own     []string          // columns that are no fields and have to be there
	slips   *[]Slip           // where columns that look like slips are noted; nil: nowhere
}

// Slip is a carried column whose name is close to a parameter without a column.
type Slip struct{ File, Column, Field string }

func newNames(o Options) names {
	mapping := o.Columns
	n := names{byName: map[string]int{}, rank: map[string]int{}, mapping: mapping, taken: map[string]int{},
		needed: fieldPrompt, own: o.Own}
	if o.Media {
		n.needed = fieldMedia
	}
	for i, f := range schemas.Fields() {
		if f.Name == schemas.FieldMedia && !o.Media {
			continue
		}
		if column, mapped := mapping[f.Name]; mapped {
			n.taken[column] = i
			continue
		}
		for rank, name := range append([]string{f.Name}, f.Aliases...) {
			n.byName[name], n.rank[name] = i, rank
		}
	}
	return n
}

// find returns the field that a column is for, or carried, and how good a name of the field it is: lower wins
// where a table has both "prompt" and "caption".
func (n names) find(column string) (field, rank int) {
	if i, mapped := n.taken[column]; mapped {
		return i, 0
	}
	lower := strings.ToLower(strings.TrimSpace(column))
	if i, known := n.byName[lower]; known {
		rank = 2 * n.rank[lower]
		if lower != column {
			rank++ // "Prompt" gives way to "prompt"
		}
		return i, rank
	}
	return carried, 0
}

// header assigns the columns of one file to fields. The error is what is wrong with the table as a whole.
func (n names) header(file string, columns []string) ([]int, error) {
	pos := document.Position{File: file, Line: 1}
	if len(columns) > maxColumns {
		return nil, document.NewError(pos, "%d columns, more than %d", len(columns), maxColumns)
	}
	fields := make([]int, len(columns))
	var best, rankOf [numFields]int
	for i := range best {
		best[i] = -1
	}
	seen := map[string]bool{}
	for i, column := range columns {
		if seen[column] {
			return nil, document.NewError(pos, "column %q stands twice", typed.ShownName(column)).
				WithFix("give every column a name of its own")
		}
		seen[column] = true
		field, rank := n.find(column)
		fields[i] = field
		if field == carried {
			continue
		}
		if prev := best[field]; prev >= 0 {
			if rank >= rankOf[field] {
				fields[i] = carried
				continue
			}
			fields[prev] = carried
		}
		best[field], rankOf[field] = i, rank
	}
	for column, field := range n.taken {
		if !seen[column] {
			return nil, document.NewError(pos, "no column %q, to which input.columns maps %s", column,
				schemas.Fields()[field].Name).WithFix("the columns are: %s", typed.Listed(columns))
		}
	}
	if best[n.needed] < 0 {
		return nil, n.noColumn(pos, columns)
	}
	for _, name := range n.own {
		if !seen[name] {
			return nil, noOwn(pos, name, columns, fields)
		}
	}
	if n.slips != nil {
		*n.slips = append(*n.slips, n.slipsOf(file, columns, fields)...)
	}
	return fields, nil
}

// minSlip is the shortest name that is taken for a slip: a column "uid" is hardly an "id".
const minSlip = 4

// slipsOf finds the carried columns that look like a field which no column gives.
func (n names) slipsOf(file string, columns []string, fields []int) (slips []Slip) {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(n.byName)) {
		if !slices.Contains(fields, n.byName[name]) {
			missing = append(missing, name)
		}
	}
	for i, column := range columns {
		name := strings.TrimSpace(column)
		if fields[i] != carried || slices.Contains(n.own, column) || len(name) < minSlip || len(name) > schemas.MaxIDBytes {
			continue
		}
		if near := config.Near(name, missing); near != "" {
			slips = append(slips, Slip{file, column, near})
		}
	}
	return slips
}

// noOwn says that a table lacks a column of the user's own that a stage depends on.
func noOwn(pos document.Position, name string, columns []string, fields []int) error {
	var free []string
	for i, column := range columns {
		if fields[i] == carried {
			free = append(free, column)
		}
	}
	err := document.NewError(pos, "no column %q, which the params of a stage name; the columns are: %s", name, typed.Listed(columns))
	if near := config.Near(name, free); near != "" {
		return err.WithFix("did you mean %s? Write one name in both places", near)
	}
	return err.WithFix("add the column, or take the name out of params")
}

func (n names) noColumn(pos document.Position, columns []string) error {
	what := "prompts"
	if n.needed == fieldMedia {
		what = "media"
	}
	err := document.NewError(pos, "no column holds the %s; the columns are: %s", what, typed.Listed(columns))
	if len(columns) == 1 && strings.ContainsAny(columns[0], ";\t") {
		return err.WithFix("separate the columns by commas")
	}
	example := "my_column"
	if len(columns) > 0 && typed.ShownName(columns[0]) == columns[0] {
		example = columns[0]
	}
	if n.needed == fieldMedia {
		return err.WithFix("name the column path, video or image, or map it: input: {columns: {media: %s}}",
			schemas.ValidText(example, 40))
	}
	return err.WithFix("name the column prompt, caption or text, or map it: input: {columns: {prompt: %s}}; "+
		"a file of prompts without a header is read with format: txt", schemas.ValidText(example, 40))
}
