package pages

import (
	"fmt"
	"io"
	"iter"
)

// Cursor iterates over the row groups of a file, for a reader of some of its columns.
type Cursor struct {
	File    *Parquet
	MaxPage int                      // size limit of a page in bytes
	Leaves  iter.Seq2[string, *Leaf] // the columns to read, with their names for errors
	Group   int                      // number of row groups opened so far
	Left    int64                    // unread rows of the open row group
}

// CheckCodecs returns an error for unsupported codecs before any row is read.
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

// Next moves to the next row, if necessary in the next row group, or returns io.EOF.
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

// Open checks the pages of the next row group and starts to read it. A group without rows need not have pages.
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
