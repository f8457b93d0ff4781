package input

import (
	"fmt"
	"strings"

	"latentbeam/internal/table/read"
)

// maxNamed bounds the columns that one warning names.
const maxNamed = 20

// Warnings says which columns of the tables that were read so far are of no use to the job, in one text.
func (in *Input) Warnings() []string {
	unused := read.Unused(in.Columns(), in.want.keep)
	if len(unused) == 0 {
		return nil
	}
	var named []string
	for i, use := range unused {
		if i == maxNamed {
			named = append(named, fmt.Sprintf("and %d more", len(unused)-maxNamed))
			break
		}
		text := use.Column
		if use.Advice != "" {
			text += " (" + use.Advice + ")"
		}
		named = append(named, text)
	}
	fix := "input: {carry: [NAMES]} says that they are there for this alone"
	if in.want.program != "" {
		fix += ", and params of " + in.want.program + " that results depend on them"
	}
	return []string{fmt.Sprintf("the job has no use for these columns of %s, which go to the output as they are: %s; %s", unused[0].File,
		strings.Join(named, ", "), fix)}
}

// Describe says in a line each how the columns of the tables are taken, "" where there are none.
func (in *Input) Describe() (lines []string) {
	var taken, source []string
	for _, use := range in.Columns() {
		switch use.Purpose {
		case read.Parameter, read.Alias:
			text := use.Column
			if use.Field != use.Column {
				text += " as " + use.Field
			}
			taken = append(taken, text)
		case read.OfSource:
			source = append(source, use.Column)
		}
	}
	if len(taken) > 0 {
		lines = append(lines, "columns: "+strings.Join(taken, ", "))
	}
	if len(source) > 0 {
		lines = append(lines, fmt.Sprintf("columns that describe the source, not the clips: %s; `input: {columns: {%s: %s}}` takes one for the job",
			strings.Join(source, ", "), in.fieldOf(source[0]), source[0]))
	}
	return lines
}

// fieldOf is the field that a column would give.
func (in *Input) fieldOf(column string) string {
	for _, use := range in.Columns() {
		if use.Column == column {
			return use.Field
		}
	}
	return ""
}
