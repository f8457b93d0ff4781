package pages

import (
	"errors"
	"fmt"
	"sort"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Single lets the library read single pages of a flat column of a row group, each after it was checked. The positions come from
// the file's page index; parquet-go writes one into every file.
type Single struct {
	guard *Guard
	meta  *format.ColumnMetaData
	leaf  *parquet.Column
	pages []int64 // offsets of the pages
	ends  []int64 // for each page: number of the row after its last row
	fine  int     // the page that was checked last
}

// Single prepares to read a column of a row group.
func (g *Guard) Single(group int, leaf *parquet.Column) (*Single, error) {
	rows := g.File.Metadata().RowGroups[group].NumRows
	chunk := &g.File.Metadata().RowGroups[group].Columns[leaf.Index()]
	s := &Single{guard: g, meta: &chunk.MetaData, leaf: leaf, fine: -1}
	if err := CheckCodec(s.meta.Codec); err != nil {
		return nil, err
	}
	if err := s.index(chunk, rows); err != nil {
		return nil, fmt.Errorf("the index of its pages: %w", err)
	}
	if start := chunkStart(s.meta); start < s.meta.DataPageOffset {
		w := s.walkAt(start)
		if err := w.dictionary(); err != nil {
			return nil, err
		}
		if w.noDict != nil {
			return nil, w.noDict
		}
	}
	return s, nil
}

// index reads the positions of the pages from the page index. Check compares them with the page itself.
func (s *Single) index(chunk *format.ColumnChunk, rows int64) error {
	at, length := chunk.OffsetIndexOffset, int64(chunk.OffsetIndexLength)
	if at <= 0 || length <= 0 || length > maxFooterBytes || at > s.guard.File.size-length || s.leaf.MaxRepetitionLevel() > 0 {
		return errors.New("there is none")
	}
	data := make([]byte, length)
	if _, err := s.guard.File.file.ReadAt(data, at); err != nil {
		return err
	}
	if n, err := skimThrift(data); err != nil || n != len(data) {
		return errors.New("it is damaged")
	}
	var index format.OffsetIndex
	if err := Guarded(func() error { return thrift.Unmarshal(new(thrift.CompactProtocol), data, &index) }); err != nil {
		return err
	}
	start := chunkStart(s.meta)
	end := start + s.meta.TotalCompressedSize
	for i, p := range index.PageLocations {
		next, first := rows, int64(0)
		if i+1 < len(index.PageLocations) {
			next = index.PageLocations[i+1].FirstRowIndex
		}
		if i > 0 {
			first = p.FirstRowIndex
		}
		if p.FirstRowIndex != first || next < first || next-first > maxPageValues || p.Offset < start || p.Offset >= end {
			return fmt.Errorf("it is damaged at page %d", i)
		}
		start = p.Offset + 1
		s.pages = append(s.pages, p.Offset)
		s.ends = append(s.ends, next)
	}
	return nil
}

func (s *Single) walkAt(offset int64) *chunkWalk {
	return &chunkWalk{guard: s.guard, meta: s.meta, leaf: s.leaf, at: offset, end: chunkStart(s.meta) + s.meta.TotalCompressedSize,
		summed: true}
}

// Check checks the page that contains a row of the group, before the library reads it.
func (s *Single) Check(row int64) error {
	i := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > row })
	switch {
	case i == len(s.ends):
		return fmt.Errorf("it has no page with row %d", row)
	case i == s.fine:
		return nil
	}
	rows := s.ends[i]
	if i > 0 {
		rows -= s.ends[i-1]
	}
	w := s.walkAt(s.pages[i])
	if err := w.page(); err != nil {
		return err
	}
	if len(w.pages.Spans) != 1 || int64(w.pages.Spans[0].values) != rows {
		return errors.New("it is another page than the index says")
	}
	if err := w.pages.Spans[0].damage; err != nil {
		return err
	}
	s.fine = i
	return nil
}
