package read

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"latentbeam/internal/config/document"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/pages"
	"latentbeam/internal/table/typed"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// parquetPrompts reads prompt rows from a parquet file column by column, so that unused columns are not read. Columns of raw
// bytes are ignored, and so are nested columns that contain them.
type parquetPrompts struct {
	file    *pages.Parquet
	columns []*parquetColumn
	cursor  pages.Cursor
	row     int
	at      *parquetColumn // column being read; nil: none
	ours    bool           // the file is a table of an output of latentbeam
}

// parquetColumn is one top-level column of a prompt table.
type parquetColumn struct {
	field  int // or carried
	name   string
	key    []byte // JSON key
	leaves []*pages.Leaf
	nested *parquet.Schema // for a column that is not a single value for each row
	halves []bool          // for each of its leaves: it has half floats
	format typed.Format
	cells  bool // it contains media; leaves has their paths, if any
	also   bool // it is a field and is also carried
}

func openParquetPrompts(path string, names names) (rowReader, error) {
	file, err := pages.Open(path)
	if err != nil {
		return nil, err
	}
	r := &parquetPrompts{file: file, ours: isOurs(file)}
	names.ours = r.ours
	r.cursor = pages.Cursor{File: file, MaxPage: pages.MaxPromptPageBytes, Leaves: r.leaves}
	if err := pages.Guarded(func() error { return r.assign(names) }); err != nil {
		_ = file.Close()
		return nil, err
	}
	return r, nil
}

// assign decides what each top-level column is used for.
func (r *parquetPrompts) assign(names names) error {
	pos := document.Position{File: r.file.Path}
	top := r.file.Root().Columns()
	var columns []string
	for _, c := range top {
		columns = append(columns, c.Name())
	}
	fields, err := names.header(r.file.Path, columns)
	if err != nil {
		return err
	}
	for i, c := range top {
		if fields[i] == fieldMedia {
			if data, name := mediaLeaves(r.file, c); data != nil {
				r.columns = append(r.columns, r.mediaColumn(c, name))
				continue
			}
		}
		flat := c.Leaf() && !c.Repeated()
		if fields[i] != carried && names.carries(c.Name(), fields[i]) && (!flat || holdsBytes(r.file, c)) {
			fields[i] = carried // the column has the name of a field and another meaning
			names.uses.correct(Use{File: r.file.Path, Column: c.Name(), Purpose: Carried, Advice: "it holds bytes or a struct, no text"})
		}
		switch {
		case !flat && fields[i] == fieldPrompt && isListOfTexts(r.file, c): // one row for each text
		case !flat && fields[i] != carried:
			return document.NewError(pos, "column %q holds lists or structs and cannot be %s", c.Name(),
				fieldName(fields[i])).WithFix("map another column to it in input.columns")
		case fields[i] == carried && holdsBytes(r.file, c):
			continue
		}
		col := &parquetColumn{field: fields[i], name: c.Name(), key: typed.AppendJSONText(nil, c.Name()),
			also: fields[i] != carried && names.carries(c.Name(), fields[i])}
		for _, leaf := range pages.LeavesOf(c) {
			col.leaves = append(col.leaves, &pages.Leaf{Column: leaf})
		}
		if flat {
			col.format = typed.FormatOf(r.file, c)
		} else {
			col.nest(r.file, c)
		}
		r.columns = append(r.columns, col)
	}
	return r.cursor.CheckCodecs()
}

// isOurs reports whether a file is a table of an output of latentbeam.
func isOurs(file *pages.Parquet) bool {
	return slices.ContainsFunc(file.Metadata().KeyValueMetadata, func(kv format.KeyValue) bool { return kv.Key == write.MetadataSchema })
}

// isUnset reports whether a value in a table of an output means that the row has no value. Earlier releases wrote 0 if a stage did not
// use a parameter.
func isUnset(field int, v typed.Cell) bool {
	if field == fieldSize {
		return false
	}
	f := schemas.Fields()[field]
	zero := v.Kind == typed.IntegerValue && v.Int == 0 || v.Kind == typed.RealValue && v.Float == 0
	return zero && (f.Kind == schemas.Integer || f.Kind == schemas.Real) && f.Min > 0
}

// mediaColumn returns a column with media. Only the names of the media are read.
func (r *parquetPrompts) mediaColumn(c, name *parquet.Column) *parquetColumn {
	col := &parquetColumn{field: fieldMedia, name: c.Name(), key: typed.AppendJSONText(nil, c.Name()), cells: true}
	if name != nil {
		col.leaves, col.format = []*pages.Leaf{{Column: name}}, typed.FormatOf(r.file, name)
	}
	return col
}

// setMedia stores the position of a row's media in the row.
func (r *parquetPrompts) setMedia(c *parquetColumn, raw *rawRow) error {
	m := source.Member{File: r.file.Path, Row: int64(r.row - 1), Column: c.name}
	if len(c.leaves) > 0 {
		v, err := c.leaves[0].Next()
		if err != nil {
			return err
		}
		m.Name = c.format.Value(v).Text
	}
	if m.Name == "" {
		m.Name = m.RowName()
	}
	raw.values[fieldMedia] = textCell(m.String())
	raw.carry(c.key, typed.AppendJSONText(nil, m.Name))
	return nil
}

// leaves yields the leaves of all columns that are read.
func (r *parquetPrompts) leaves(yield func(string, *pages.Leaf) bool) {
	for _, c := range r.columns {
		for _, leaf := range c.leaves {
			if !yield(c.name, leaf) {
				return
			}
		}
	}
}

// isListOfTexts reports whether a column has a list of texts in each row.
func isListOfTexts(file *pages.Parquet, c *parquet.Column) bool {
	leaves := pages.LeavesOf(c)
	return len(leaves) == 1 && leaves[0].MaxRepetitionLevel() == 1 && typed.FormatOf(file, leaves[0]).Kind == typed.TextLeaf
}

// holdsBytes reports whether a column contains raw bytes, such as images and tensors. They cannot be carried as text.
func holdsBytes(file *pages.Parquet, c *parquet.Column) bool {
	for _, leaf := range pages.LeavesOf(c) {
		if typed.FormatOf(file, leaf).Kind == typed.RawLeaf {
			return true
		}
	}
	return false
}

func (r *parquetPrompts) next(raw *rawRow) error {
	r.at = nil
	err := pages.Guarded(func() error { return r.read(raw) })
	if err != nil && r.at != nil {
		return columnError(r.file, r.cursor.Group-1, r.at, err)
	}
	return err
}

func (r *parquetPrompts) read(raw *rawRow) error {
	if err := r.cursor.Next(); err != nil {
		return err
	}
	r.row++
	raw.line, raw.unit = r.row, "row "
	for _, r.at = range r.columns {
		err := r.setValue(r.at, raw)
		var damage *pages.DamageError
		if errors.As(err, &damage) {
			if raw.fault == "" {
				raw.fault, raw.fix = r.at.name+": "+damage.Error(), pages.CopyFix
			}
			continue
		}
		if err != nil {
			return err
		}
	}
	if guidance := raw.values[fieldGuidance]; r.ours && raw.values[fieldSteps].Kind == typed.Absent && guidance.Float == 0 {
		raw.values[fieldGuidance] = typed.Cell{} // nothing was sampled
	}
	return nil
}

// setValue stores a column's value in the row.
func (r *parquetPrompts) setValue(c *parquetColumn, raw *rawRow) error {
	if c.cells {
		return r.setMedia(c, raw)
	}
	if c.nested != nil {
		text, fault, err := c.nestedJSON()
		if err != nil {
			return err
		}
		if c.field != fieldPrompt || c.also {
			raw.carryLeaf(c, text, fault)
		}
		if c.field == fieldPrompt && text[0] == '[' { // otherwise null
			raw.setCaptions(text)
		}
		return nil
	}
	v, err := c.leaves[0].Next()
	if err != nil {
		return err
	}
	if c.field == carried {
		text, fault := c.format.JSON(v)
		raw.carryLeaf(c, text, fault)
		return nil
	}
	raw.values[c.field] = c.format.Value(v)
	if r.ours && isUnset(c.field, raw.values[c.field]) {
		raw.values[c.field] = typed.Cell{}
	}
	if c.also {
		text, fault := c.format.JSON(v)
		raw.carryLeaf(c, text, fault)
	}
	return nil
}

// carryLeaf carries a column's value. If fault is not empty, text does not represent the value, and the
// row becomes a bad row.
func (r *rawRow) carryLeaf(c *parquetColumn, text []byte, fault string) {
	if fault != "" && r.fault == "" {
		r.fault, r.fix = c.name+": "+fault, "correct the value, or take the column out of the table"
	}
	r.carry(c.key, text)
}

// columnError returns ChunkError, with the number of the page, for a value that cannot be decoded. It returns err itself if reading
// failed or if err already names its place.
func columnError(file *pages.Parquet, group int, c *parquetColumn, err error) error {
	var known *document.Error
	if errors.As(err, &known) || file.Failed() != nil {
		return err
	}
	page := 0
	for _, leaf := range c.leaves {
		page = max(page, leaf.Span)
	}
	return file.ChunkError(group, c.name, fmt.Errorf("page %d: %w", page, err))
}

func (r *parquetPrompts) close() error {
	for _, leaf := range r.leaves {
		leaf.Close()
	}
	return r.file.Close()
}
