package read

import (
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

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
	tools   map[string]int    // lower-case name of another tool -> field
	source  map[string]int    // lower-case name -> field, of columns that describe the source of media
	rank    map[string]int    // among the names of one field, the lowest wins
	mapping map[string]string // field -> column, from the configuration
	taken   map[string]int    // column -> field, the mapping turned round
	naming  *schemas.Naming   // of lengths
	fps     float64           // of rows that do not say it
	needed  int               // the field that every table must have
	own     []string          // columns that are no fields and have to be there
	folders []string          // columns in the names of the folders of the file
	ours    bool              // the file is a table of an output
	depends func(int) bool    // whether a field is of use to the job
	rawText bool              // of txt: each line is a prompt
	comma   rune              // of csv; 0: it is found out
	uses    *Uses             // where it is noted what columns are for; never nil
}

// sourceFields describe the source in a table of media, as tools that cut and filter videos write them. They say nothing of
// the clips that a job makes, unless input.columns maps them.
var sourceFields = []int{fieldHeight, fieldWidth, fieldNumFrames, fieldFPS, fieldResolution, fieldAspectRatio, fieldSize}

func newNames(o Options) names {
	mapping := o.Columns
	n := names{byName: map[string]int{}, tools: map[string]int{}, source: map[string]int{}, rank: map[string]int{}, mapping: mapping,
		taken: map[string]int{}, needed: fieldPrompt, own: o.Own, depends: o.depends, rawText: o.RawText, naming: o.Naming, fps: o.FPS,
		comma: o.Comma, uses: o.Uses}
	if o.Uses == nil {
		n.uses = &Uses{}
	}
	if o.Media {
		n.needed = fieldMedia
	}
	for i, f := range schemas.Fields() {
		if f.Name == schemas.FieldMedia && !o.Media || f.Name == schemas.FieldSampleIndex && (o.Media || slices.Contains(o.Own, f.Name)) {
			continue
		}
		if column, mapped := mapping[f.Name]; mapped {
			if column != "" { // "" says that no column is this field
				n.taken[column] = i
			}
			continue
		}
		byName := n.byName
		if o.Media && slices.Contains(sourceFields, i) {
			byName = n.source
		}
		for rank, name := range append([]string{f.Name}, f.Aliases...) {
			byName[name], n.rank[name] = i, rank
		}
	}
	n.addTools(o)
	return n
}

// addTools adds the names of other tools for the fields that the job depends on. A name of ours is ours first.
func (n names) addTools(o Options) {
	const behind = 100 // all names of ours
	for i, t := range schemas.ToolNames() {
		field := fieldOf(t.Field)
		_, ours := n.byName[t.Name]
		switch {
		case field < 0 || ours || n.isMapped(field) || !o.depends(field):
		case o.Media && slices.Contains(sourceFields, field):
			n.source[t.Name] = field
		default:
			n.tools[t.Name], n.rank[t.Name] = field, behind+i
		}
	}
}

// isMapped reports whether input.columns says which column a field is. A size is the sides.
func (n names) isMapped(field int) bool {
	fields := []int{field}
	if field == fieldSize {
		fields = []int{fieldHeight, fieldWidth}
	}
	return slices.ContainsFunc(fields, func(i int) bool {
		_, mapped := n.mapping[schemas.Fields()[i].Name]
		return mapped
	})
}

// find returns the field that a column is for, or carried, and how good a name of the field it is: lower wins
// where a table has both "prompt" and "caption".
func (n names) find(column string) (field, rank int) {
	if i, mapped := n.taken[column]; mapped {
		return i, 0
	}
	lower := strings.ToLower(strings.TrimSpace(column))
	i, known := n.byName[lower]
	if !known {
		i, known = n.tools[lower]
	}
	if known {
		rank = 2 * n.rank[lower]
		if lower != column {
			rank++ // "Prompt" gives way to "prompt"
		}
		return i, rank
	}
	return carried, 0
}

// isTools reports whether a column gives a field under the name of another tool. Such columns are carried as well.
func (n names) isTools(column string) bool {
	if _, mapped := n.taken[column]; mapped {
		return false
	}
	lower := strings.ToLower(strings.TrimSpace(column))
	_, ours := n.byName[lower]
	_, tools := n.tools[lower]
	return tools && !ours
}

// header assigns the columns of one file to fields. The error is what is wrong with the table as a whole.
func (n names) header(file string, columns []string) ([]int, error) {
	pos := document.Position{File: file, Line: 1}
	if len(columns) > maxColumns {
		return nil, document.NewError(pos, "%d columns, more than %d", len(columns), maxColumns)
	}
	fields := make([]int, len(columns))
	var best, rankOf [numValues]int
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
	if at := best[fieldSize]; at >= 0 && (best[fieldHeight] >= 0 || best[fieldWidth] >= 0) {
		fields[at] = carried // the sides say it
	}
	for _, column := range n.folders {
		seen[column] = true
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
	for i, column := range columns {
		if use := n.useOf(file, column, fields[i]); use.Purpose != Carried || !n.ours || !isProvenance(column) {
			n.uses.note(use)
		}
	}
	return fields, nil
}

// provenance are the columns of the tables of outputs.
var provenance = slices.Concat(parquet.SchemaOf(schemas.VideoRow{}).Columns(), parquet.SchemaOf(schemas.LatentRow{}).Columns(),
	parquet.SchemaOf(schemas.EmbeddingRow{}).Columns())

// isProvenance reports whether a column is one of every output. They go along without a word.
func isProvenance(column string) bool {
	return strings.HasPrefix(column, "measured_") || column == "selected" || slices.ContainsFunc(provenance, func(path []string) bool { return path[0] == column })
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
