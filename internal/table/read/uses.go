package read

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/schemas"
)

// Purpose says what a column of a table is used for.
type Purpose int

// The purposes of columns.
const (
	// Parameter is a column that sets a field of the row.
	Parameter Purpose = iota
	// Alias is a Parameter under the name of another tool.
	Alias
	// OfSource is a column of a table of media that describes the source, not the job's clips.
	OfSource
	// Program is a column that a stage of the job depends on.
	Program
	// Carried columns only go to the output, unchanged.
	Carried
)

// Use says what a job does with a column.
type Use struct {
	File, Column string // File is the first file that has it
	Purpose      Purpose
	Folder       bool   // it is in the names of folders
	Field        string // the field that it sets, or would set if input.columns mapped it; FieldSize for both sides
	Advice       string // for a carried column: where a job sets the same, or which field may be meant
}

// Uses records what a job does with the columns of its tables, and which lines of text it skips. The zero value is empty. It is
// safe for concurrent use.
type Uses struct {
	mu      sync.Mutex
	columns map[string]Use
	skipped map[string]int // lines of a file that are not prompts
	flagged map[string]Flags
}

// Flags are trainer options in the prompts of a text file.
type Flags struct {
	File    string
	Line    int    // the first line with options
	Lines   int    // number of lines with options
	Options string // of the first line, as "--w --h"
	Columns string // the corresponding columns, as "width, height"
}

// skip records the number of skipped lines of a file.
func (u *Uses) skip(file string, lines int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.skipped == nil {
		u.skipped = map[string]int{}
	}
	if lines > 0 {
		u.skipped[file] = lines
	}
}

// Skipped returns the number of blank lines and comments in all files, and the first file, by name, that has some.
func (u *Uses) Skipped() (lines int, file string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, n := range u.skipped {
		lines += n
		if file == "" || name < file {
			file = name
		}
	}
	return lines, file
}

// flags records the trainer options in a prompt. A line that is read again counts once.
func (u *Uses) flags(file string, line int, prompt string) {
	options, columns := flagsOf(prompt)
	if options == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.flagged == nil {
		u.flagged = map[string]Flags{}
	}
	f, known := u.flagged[file]
	switch {
	case !known || line <= f.Line:
		f = Flags{File: file, Line: line, Lines: 1, Options: options, Columns: columns}
	default:
		f.Lines++
	}
	u.flagged[file] = f
}

// Flagged lists the files with trainer options in their prompts, by name.
func (u *Uses) Flagged() []Flags {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.SortedFunc(maps.Values(u.flagged), func(a, b Flags) int { return strings.Compare(a.File, b.File) })
}

// record records a column, unless it is known. A column that is a field in one file counts as that field in all files.
func (u *Uses) record(use Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if was, known := u.columns[use.Column]; known && (was.Purpose != Carried || use.Purpose == Carried) {
		return
	}
	if u.columns == nil {
		u.columns = map[string]Use{}
	}
	if len(u.columns) < maxColumns {
		u.columns[use.Column] = use
	}
}

// correct replaces what was recorded about a column.
func (u *Uses) correct(use Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.columns[use.Column]; known {
		u.columns[use.Column] = use
	}
}

// Columns lists the columns of all tables that were read so far, by purpose and name.
func (u *Uses) Columns() []Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []Use
	given := map[string]bool{}
	for _, use := range u.columns {
		all = append(all, use)
		given[use.Field] = given[use.Field] || use.Purpose == Parameter || use.Purpose == Alias
	}
	for i := range all { // advice about a field is useless if another column sets it
		if use := &all[i]; use.Purpose == Carried && use.Field != "" && given[use.Field] {
			use.Field, use.Advice = "", ""
		}
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Purpose, b.Purpose), strings.Compare(a.Column, b.Column))
	})
	return all
}

// minSlip is the length of the shortest name that may be a misspelling: a column "uid" is hardly a misspelled "id".
const minSlip = 4

// useOf returns the use of a column whose field is known.
func (n names) useOf(file, column string, field int) Use {
	use := Use{File: file, Column: column}
	name := strings.ToLower(strings.TrimSpace(column))
	switch source, ofSource := n.source[name]; {
	case slices.Contains(n.own, column):
		use.Purpose = Program
	case field != carried:
		use.Purpose, use.Field = Parameter, fieldName(field)
		if n.isTools(column) {
			use.Purpose = Alias
		}
	case ofSource:
		use.Purpose, use.Field = OfSource, fieldName(source)
	default:
		use.Purpose = Carried
		use.Field, use.Advice = n.advice(name)
	}
	return use
}

// advice returns which field a carried column may be meant for, "" for none, and what to do.
func (n names) advice(name string) (field, advice string) {
	if _, ours := n.byName[name]; ours || fieldOf(name) >= 0 { // another column sets the field, or it is unmapped
		return "", ""
	}
	if tool, known := schemas.ToolNameOf(name); known {
		switch field := fieldOf(tool.Field); {
		case tool.Field == "":
			return "", tool.Advice
		case n.isMapped(field):
			return "", ""
		}
		return tool.Field, "it means " + tool.Field + ", which no stage of the job depends on"
	}
	if len(name) < minSlip || len(name) > schemas.MaxIDBytes {
		return "", ""
	}
	var free []string
	for known, field := range n.byName {
		if !n.isMapped(field) {
			free = append(free, known)
		}
	}
	slices.Sort(free)
	if near := config.Near(name, free); near != "" {
		return fieldName(n.byName[near]), "did you mean " + near + "?"
	}
	return "", ""
}

// fieldOf returns the number of a field, or fieldSize; -1 if there is no field with this name.
func fieldOf(name string) int {
	if name == schemas.FieldSize {
		return fieldSize
	}
	return slices.IndexFunc(schemas.Fields(), func(f schemas.Field) bool { return f.Name == name })
}

// carries reports whether a column that is a field also goes to the output. Columns with the names of other tools do, because
// earlier releases carried them.
func (n names) carries(column string, field int) bool {
	return field == fieldSize || schemas.Fields()[field].Carried || n.isTools(column)
}

func fieldName(field int) string {
	if field == fieldSize {
		return schemas.FieldSize
	}
	return schemas.Fields()[field].Name
}

// Unused returns the carried columns that no pattern of keep matches. "*" matches all.
func Unused(uses []Use, keep []string) (unused []Use) {
	for _, use := range uses {
		named := slices.ContainsFunc(keep, func(pattern string) bool {
			match, err := path.Match(pattern, use.Column)
			return use.Column == pattern || err == nil && match
		})
		if use.Purpose == Carried && !named {
			unused = append(unused, use)
		}
	}
	return unused
}

// IsOurs reports whether a column has the name of a field or one of its aliases.
func IsOurs(column string) bool {
	name := strings.ToLower(strings.TrimSpace(column))
	return slices.ContainsFunc(schemas.Fields(), func(f schemas.Field) bool {
		return f.Name == name || slices.Contains(f.Aliases, name)
	})
}
