package pages

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// maxPageHeaderBytes limits a page's header; some writers store the largest value in it.
const maxPageHeaderBytes = 32 << 20

// Guard checks the pages of column chunks before the library decodes them: their sizes, codecs and encodings, the length of
// compressed data compared to the header, and the number of values in runs, deltas and texts compared to the page.
type Guard struct {
	File    *Parquet
	MaxPage int // largest uncompressed size of a page in bytes
	open    int // sum of the largest pages of the columns so far
	unpack  unpacker

	Booleans []byte // of the chunk that was checked last, see booleans.go
}

// Close releases the buffers for decompression.
func (g *Guard) Close() { g.unpack.close() }

// pageFacts are the claims of a page.
type pageFacts struct {
	values    int             // values of the column with nulls, or entries of a dictionary
	rows      int             // rows that start in the page; known for version 2 pages and flat columns
	nulls     int             // in a version 2 page
	data      bool            // not a dictionary
	encoding  format.Encoding // of the values
	rep, def  int             // size of the levels at the front of a version 2 page in bytes
	v2        bool
	codec     format.CompressionCodec
	repLevels format.Encoding // in a version 1 page
	defLevels format.Encoding
}

// Chunk checks all pages of a column chunk. A damaged page is recorded in its DataPage. An error makes the whole chunk
// unreadable, because the rows of its pages are not known.
func (g *Guard) Chunk(c *format.ColumnChunk, leaf *parquet.Column) (Chunk, error) {
	m := &c.MetaData
	if err := CheckCodec(m.Codec); err != nil {
		return Chunk{}, err
	}
	g.Booleans = nil
	w := chunkWalk{guard: g, meta: m, leaf: leaf, at: chunkStart(m), end: chunkStart(m) + m.TotalCompressedSize}
	w.pages.End = w.end
	if w.at < m.DataPageOffset {
		if err := w.dictionary(); err != nil {
			return Chunk{}, err
		}
	}
	for w.at < w.end && w.values < m.NumValues {
		if err := w.page(); err != nil {
			return Chunk{}, fmt.Errorf("page %d at byte %d: %w", len(w.pages.Spans), w.at, err)
		}
	}
	if w.values != m.NumValues {
		return Chunk{}, fmt.Errorf("its pages 0 to %d have %d values, the footer claims %d",
			len(w.pages.Spans)-1, w.values, m.NumValues)
	}
	if g.open += w.largest; g.open > maxOpenPageBytes {
		return Chunk{}, fmt.Errorf("the pages of its columns take more than %d MiB together", maxOpenPageBytes>>20)
	}
	return w.pages, nil
}

// CheckCodec returns an error for an unsupported compression.
func CheckCodec(c format.CompressionCodec) error {
	switch c {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
		return nil
	}
	return codingError{text: fmt.Sprintf("it is compressed with %s, and only snappy, gzip, zstd and none are read", c),
		codec: true}
}

// Header reads a page header and returns its length.
func (g *Guard) Header(at, end int64) (*format.PageHeader, int, error) {
	for window := int64(1 << 10); ; window *= 16 {
		data := make([]byte, min(window, end-at))
		if _, err := g.File.file.ReadAt(data, at); err != nil {
			return nil, 0, err
		}
		n, err := skimThrift(data)
		if errors.Is(err, errThriftShort) && int64(len(data)) < end-at && window < maxPageHeaderBytes {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("its header is damaged: %w", err)
		}
		header := new(format.PageHeader)
		err = Guarded(func() error {
			r := new(thrift.CompactProtocol).NewReaderFromBytes(data[:n])
			return thrift.NewDecoder(r).Decode(header)
		})
		return header, n, err
	}
}

// facts reads the claims of a page header. An error says that the header cannot be trusted, so the next page and the rows of
// this one are not known.
func (g *Guard) facts(m *format.ColumnMetaData, h *format.PageHeader, body, end int64) (pageFacts, error) {
	plain, packed := int(h.UncompressedPageSize), int(h.CompressedPageSize)
	if plain < 0 || packed < 0 || int64(packed) > end-body {
		return pageFacts{}, errors.New("it lies outside of its column")
	}
	f := pageFacts{codec: m.Codec}
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		v := &h.DataPageHeader.V
		f.data, f.values, f.encoding = true, int(v.NumValues), v.Encoding
		f.repLevels, f.defLevels = v.RepetitionLevelEncoding, v.DefinitionLevelEncoding
		f.rows = f.values
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		f.data, f.values, f.encoding, f.v2 = true, int(v.NumValues), v.Encoding, true
		f.rows, f.nulls = int(v.NumRows), int(v.NumNulls)
		f.rep, f.def = int(v.RepetitionLevelsByteLength), int(v.DefinitionLevelsByteLength)
		if v.IsCompressed.Valid && !v.IsCompressed.V {
			f.codec = format.Uncompressed
		}
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		f.values, f.encoding = int(h.DictionaryPageHeader.V.NumValues), h.DictionaryPageHeader.V.Encoding
	default:
		return f, errors.New("it is of no known kind")
	}
	if f.values < 0 || f.values > maxPageValues {
		return f, fmt.Errorf("it claims %d values, at most %d are read", f.values, maxPageValues)
	}
	if f.rows < 0 || f.rows > f.values {
		return f, fmt.Errorf("it claims %d rows and %d values", f.rows, f.values)
	}
	return f, nil
}

// content checks a page's compressed data, levels and values.
func (g *Guard) content(leaf *parquet.Column, h *format.PageHeader, f *pageFacts, at int64) error {
	levels := f.rep + f.def
	packed, plain := int(h.CompressedPageSize)-levels, int(h.UncompressedPageSize)-levels
	switch {
	case f.rep < 0, f.def < 0, packed < 0, plain < 0:
		return errors.New("its levels are longer than the page")
	case plain > g.MaxPage:
		return limitError(fmt.Sprintf("it takes %d bytes, more than %d MiB", plain, g.MaxPage>>20))
	}
	data, err := g.unpack.open(g.File.file, f.codec, at+int64(levels), packed, plain)
	if err != nil {
		return err
	}
	if !f.data {
		//nolint:staticcheck // SA1019: old writers still use it
		if f.encoding != format.Plain && f.encoding != format.PlainDictionary {
			return fmt.Errorf("a dictionary in the encoding %s", f.encoding)
		}
		return checkPlain(&data, leaf.Type(), f.values)
	}
	repeated, defined, err := g.levels(leaf, f, &data, at)
	if err != nil {
		return err
	}
	if err := f.countRows(repeated, leaf.MaxRepetitionLevel()); err != nil {
		return err
	}
	present, err := f.present(defined, leaf.MaxDefinitionLevel())
	if err != nil {
		return err
	}
	if isFlatBoolean(leaf) {
		g.Booleans, err = appendBooleans(g.Booleans, &data, f, defined, leaf.MaxDefinitionLevel())
		return err
	}
	return checkValues(&data, f.encoding, leaf.Type(), present)
}

// levels checks the levels before a data page's values and returns their runs.
func (g *Guard) levels(leaf *parquet.Column, f *pageFacts, data *pageData, at int64) (rep, def []byte, err error) {
	maxRep, maxDef := leaf.MaxRepetitionLevel(), leaf.MaxDefinitionLevel()
	if f.v2 {
		front := pageData{file: g.File.file, at: at, size: f.rep + f.def}
		if rep, err = checkLevels(&front, f.rep, maxRep, f.values); err == nil {
			def, err = checkLevels(&front, f.def, maxDef, f.values)
		}
		return rep, def, err
	}
	if rep, err = checkLevelsV1(data, f.repLevels, maxRep, f.values); err == nil {
		def, err = checkLevelsV1(data, f.defLevels, maxDef, f.values)
	}
	return rep, def, err
}
