package read

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/pages"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas/fault"
)

func init() { source.ReadCell = readCell }

// mediaLeaves finds the bytes and the path in a column of media: Hugging Face's struct, or only bytes. A column without bytes
// is a column of paths.
func mediaLeaves(file *pages.Parquet, c *parquet.Column) (data, name *parquet.Column) {
	if c.Repeated() {
		return nil, nil
	}
	if c.Leaf() {
		if typed.FormatOf(file, c).Kind == typed.RawLeaf {
			return c, nil
		}
		return nil, nil
	}
	for _, child := range c.Columns() {
		switch {
		case child.Repeated() || !child.Leaf():
		case child.Name() == "bytes" && typed.FormatOf(file, child).Kind == typed.RawLeaf:
			data = child
		case child.Name() == "path":
			name = child
		}
	}
	return data, name
}

// cursorOf returns a cursor for one column of media.
func cursorOf(file *pages.Parquet, leaf *pages.Leaf) *pages.Cursor {
	return &pages.Cursor{File: file, MaxPage: pages.MaxTensorPageBytes, Leaves: func(yield func(string, *pages.Leaf) bool) {
		yield(leaf.Column.Name(), leaf)
	}}
}

// group has the media of a row group. They are stored in an unlinked file, because a page cannot be read from its middle, and
// rows are requested in any order.
type group struct {
	file, column, state string
	first               int64 // number of its first row
	cells               []cell
	spool               *os.File
}

type cell struct {
	at   int64
	size int // -1: null
	err  error
}

// maxGroups limits the number of cached row groups.
const maxGroups = 2

var groups struct {
	sync.Mutex
	open []*group // most recently used last
}

// readCell returns the bytes of a cell, nil for null.
func readCell(m source.Member) ([]byte, error) {
	groups.Lock()
	defer groups.Unlock()
	state := ""
	if info, err := os.Stat(m.File); err == nil {
		state = fmt.Sprint(info.Size(), info.ModTime())
	}
	var found *group
	for i, g := range groups.open {
		if g.file == m.File && g.column == m.Column && g.state == state && m.Row >= g.first && m.Row < g.first+int64(len(g.cells)) {
			found = g
			groups.open = append(append(groups.open[:i:i], groups.open[i+1:]...), g)
			break
		}
	}
	if found == nil {
		g := &group{file: m.File, column: m.Column, state: state}
		if err := pages.Guarded(func() error { return g.read(m.Row) }); err != nil {
			return nil, err
		}
		if groups.open = append(groups.open, g); len(groups.open) > maxGroups {
			_ = groups.open[0].spool.Close()
			groups.open = groups.open[1:]
		}
		found = g
	}
	c := found.cells[m.Row-found.first]
	if c.err != nil || c.size < 0 {
		return nil, c.err
	}
	data := make([]byte, c.size)
	_, err := found.spool.ReadAt(data, c.at)
	return data, err
}

// read spools the row group that contains a row.
func (g *group) read(row int64) error {
	file, err := pages.Open(g.file)
	if err != nil {
		return err
	}
	defer file.Close()
	column := file.Root().Column(g.column)
	if column == nil {
		return fmt.Errorf("%s has no column %q any more", g.file, g.column)
	}
	data, _ := mediaLeaves(file, column)
	if data == nil {
		return fmt.Errorf("column %q of %s has no bytes any more", g.column, g.file)
	}
	leaf := &pages.Leaf{Column: data}
	defer leaf.Close()
	cursor := cursorOf(file, leaf)
	for _, meta := range file.Metadata().RowGroups {
		if row < g.first+meta.NumRows {
			break
		}
		g.first += meta.NumRows
		cursor.Group++
	}
	if cursor.Group == len(file.RowGroups()) {
		return fmt.Errorf("%s has %d rows, this is row %d; has it changed?", g.file, g.first, row+1)
	}
	if err := cursor.Open(); err != nil {
		return err
	}
	if g.spool, err = os.CreateTemp("", "latentbeam-cells-"); err != nil {
		return fault.TryAgain(err)
	}
	err = errors.Join(os.Remove(g.spool.Name()), g.fill(cursor, leaf))
	if err != nil {
		_ = g.spool.Close()
	}
	return err
}

// fill writes the values of a row group to the spool.
func (g *group) fill(cursor *pages.Cursor, leaf *pages.Leaf) error {
	at := int64(0)
	for range cursor.Left {
		v, err := leaf.Next()
		var damage *pages.DamageError
		if err != nil && !errors.As(err, &damage) {
			return err
		}
		c := cell{at: at, size: -1, err: err}
		if err == nil && !v.IsNull() {
			if c.size, err = g.spool.Write(v.ByteArray()); err != nil {
				return fault.TryAgain(err)
			}
			at += int64(c.size)
		}
		g.cells = append(g.cells, c)
	}
	return nil
}
