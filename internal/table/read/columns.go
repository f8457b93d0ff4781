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

// carried marks a column that is not a field: it goes to the output unchanged.
const carried = -1

// names maps column names to fields. It is built once for each table.
type names struct {
	byName  map[string]int    // lower-case name or alias -> field
	tools   map[string]int    // lower-case name of another tool -> field
	source  map[string]int    // lower-case name -> field, for columns that describe the source of media
	rank    map[string]int    // among the names of one field, the lowest rank wins
	mapping map[string]string // field -> column, from the configuration
	taken   map[string]int    // column -> field, the inverse of mapping
	naming  *schemas.Naming   // reads lengths
	fps     float64           // for rows without one
	needed  int               // the field that every table must have
	own     []string          // columns that are not fields but must exist
	folders []string          // columns from the names of the file's folders
	ours    bool              // the file is a table of an output
	depends func(int) bool    // reports whether the job uses a field
	rawText bool              // for txt: each line is a prompt
	comma   rune              // for csv; 0: detect it
	uses    *Uses             // records what columns are used for; never nil
}

// sourceFields are columns with which tools that cut and filter videos describe the source, in tables of media. They do not
// describe the clips that a job makes, unless input.columns maps them.
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

// addTools adds the names of other tools for the fields that the job uses. Our own names take precedence.
func (n names) addTools(o Options) {
	const behind = 100 // higher than the rank of all our names
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

// isMapped reports whether input.columns maps a field. For FieldSize it checks height and width.
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

// find returns the field for a column, or carried, and the rank of the name. The lower rank wins if a table has both "prompt"
// and "caption".
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
			rank++ // "prompt" wins over "Prompt"
		}
		return i, rank
	}
	return carried, 0
}

// isTools reports whether a column is a field under the name of another tool. Such columns are also carried.
func (n names) isTools(column string) bool {
	if _, mapped := n.taken[column]; mapped {
		return false
	}
	lower := strings.ToLower(strings.TrimSpace(column))
	_, ours := n.byName[lower]
	_, tools := n.tools[lower]
	return tools && !ours
}

// header assigns the columns of one file to fields. An error concerns the whole table.
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
		fields[at] = carried // height and width win over a size
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
			return nil, missingOwn(pos, name, columns, fields)
		}
	}
	for i, column := range columns {
		if use := n.useOf(file, column, fields[i]); use.Purpose != Carried || !n.ours || !isProvenance(column) {
			n.uses.record(use)
		}
	}
	return fields, nil
}

// provenance lists the columns of the tables of outputs.
var provenance = slices.Concat(parquet.SchemaOf(schemas.VideoRow{}).Columns(), parquet.SchemaOf(schemas.LatentRow{}).Columns(),
	parquet.SchemaOf(schemas.EmbeddingRow{}).Columns())

// isProvenance reports whether a column is in every output. Such columns are carried without a remark.
func isProvenance(column string) bool {
	return strings.HasPrefix(column, "measured_") || column == "selected" || slices.ContainsFunc(provenance, func(path []string) bool { return path[0] == column })
}

// missingOwn returns an error for a table without a column that a stage depends on.
func missingOwn(pos document.Position, name string, columns []string, fields []int) error {
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
	if i := slices.IndexFunc(columns, func(c string) bool { return c != "id" }); i >= 0 && typed.ShownName(columns[i]) == columns[i] {
		example = columns[i]
	}
	if n.needed == fieldMedia {
		return err.WithFix("name the column path, video or image, or map it: input: {columns: {media: %s}}",
			schemas.ValidText(example, 40))
	}
	return err.WithFix("name the column prompt, caption or text, or map it: input: {columns: {prompt: %s}}; "+
		"a file of prompts without a header is read with format: txt", schemas.ValidText(example, 40))
}
