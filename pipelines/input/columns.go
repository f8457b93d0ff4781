package input

import (
	"fmt"
	"strings"

	"latentbeam/internal/table/read"
)

// maxNamed limits the columns that one warning names.
const maxNamed = 20

// Warnings returns a warning for each part of the tables read so far that the job ignores: columns, lines that are not
// prompts, and options of training programs in prompts.
func (in *Input) Warnings() (all []string) {
	if lines, file := in.want.uses.Skipped(); lines > 0 {
		all = append(all, fmt.Sprintf("%d lines of %s are blank or comments and no rows (`input: {txt: raw}` makes each line of a txt a prompt)",
			lines, file))
	}
	for _, f := range in.want.uses.Flagged() {
		more := ""
		if f.Lines > 1 {
			more = fmt.Sprintf(", as on %d lines in all", f.Lines)
		}
		all = append(all, fmt.Sprintf("%s:%d: %s are words of the prompt here%s: a txt has no options; write a csv with the "+
			"columns prompt, %s", f.File, f.Line, f.Options, more, f.Columns))
	}
	if why := in.unused(); why != "" {
		all = append(all, why)
	}
	return all
}

// unused returns a warning that names the columns that the job does not use; "": none.
func (in *Input) unused() string {
	unused := read.Unused(in.Columns(), in.want.carried)
	if len(unused) == 0 {
		return ""
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
	return fmt.Sprintf("the job has no use for these columns of %s, which go to the output as they are: %s; %s", unused[0].File,
		strings.Join(named, ", "), fix)
}

// Describe returns lines that say how the job uses the columns of the tables.
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

// fieldOf returns the field that a column would set.
func (in *Input) fieldOf(column string) string {
	for _, use := range in.Columns() {
		if use.Column == column {
			return use.Field
		}
	}
	return ""
}
