package pages

import (
	"fmt"
	"io"
	"iter"
)

// Cursor goes through the row groups of a file, for a reader of some of its columns.
type Cursor struct {
	File    *Parquet
	MaxPage int                      // the largest page in bytes that is read
	Leaves  iter.Seq2[string, *Leaf] // the columns that are read, by the names that errors give them
	Group   int                      // row groups opened so far
	Left    int64                    // rows of the open row group that are not read yet
}

// CheckCodecs finds codecs that are not read before any row is.
func (c *Cursor) CheckCodecs() error {
	for i, group := range c.File.Metadata().RowGroups {
		if group.NumRows == 0 {
			continue
		}
		for name, leaf := range c.Leaves {
			if err := CheckCodec(group.Columns[leaf.Column.Index()].MetaData.Codec); err != nil {
				return c.File.ChunkError(i, name, err)
			}
		}
	}
	return nil
}

// Next goes on to the next row, in the next row group where the open one has no more, or returns io.EOF.
func (c *Cursor) Next() error {
	for c.Left == 0 {
		if c.Group == len(c.File.RowGroups()) {
			return io.EOF
		}
		if err := c.Open(); err != nil {
			return err
		}
	}
	c.Left--
	return nil
}

// Open checks the pages of the next row group and begins to read it. One without rows need not have pages.
func (c *Cursor) Open() error {
	meta := &c.File.Metadata().RowGroups[c.Group]
	if meta.NumRows == 0 {
		c.Group++
		return nil
	}
	guard := Guard{File: c.File, MaxPage: c.MaxPage}
	defer guard.Close()
	for name, leaf := range c.Leaves {
		found, err := guard.Chunk(&meta.Columns[leaf.Column.Index()], leaf.Column)
		if err == nil && found.Rows() != meta.NumRows {
			err = fmt.Errorf("its pages 0 to %d have %d rows, the row group %d", len(found.Spans)-1, found.Rows(), meta.NumRows)
		}
		if err != nil {
			return c.File.ChunkError(c.Group, name, err)
		}
		leaf.Open(c.File, c.Group, found, guard.Booleans)
	}
	c.Group++
	c.Left = meta.NumRows
	return nil
}
