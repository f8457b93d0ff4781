package table

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// maxPageHeaderBytes is how long a page's header may be; some writers put the largest value into it.
const maxPageHeaderBytes = 32 << 20

// pageGuard checks the pages of column chunks before the library decodes them: their sizes, codecs and
// encodings, that compressed data holds exactly what its header says, and that runs and deltas hold no
// more values.
type pageGuard struct {
	file    *parquetFile
	maxPage int // uncompressed bytes of a page
	open    int // the largest pages of the columns seen so far, together
	unpack  unpacker

	booleans []byte // of the chunk checked last, see booleans.go
}

// pageFacts is what a page says about itself.
type pageFacts struct {
	values    int             // values of the column, nulls included; entries of a dictionary
	data      bool            // not a dictionary
	encoding  format.Encoding // of the values
	rep, def  int             // bytes of the levels in front of a version 2 page
	v2        bool
	codec     format.CompressionCodec
	repLevels format.Encoding // of a version 1 page
	defLevels format.Encoding
}

// chunk checks all pages of a column chunk of a row group.
func (g *pageGuard) chunk(c *format.ColumnChunk, leaf *parquet.Column) error {
	m := &c.MetaData
	if err := checkCodec(m.Codec); err != nil {
		return err
	}
	g.booleans = nil
	at, end := chunkStart(m), chunkStart(m)+m.TotalCompressedSize
	values, largest := int64(0), 0
	for at < end && values < m.NumValues {
		header, length, err := g.header(at, end)
		var facts pageFacts
		if err == nil {
			at += int64(length)
			facts, err = g.facts(m, header, at, end)
		}
		if err == nil {
			err = g.content(leaf, header, &facts, at)
		}
		if err != nil {
			return fmt.Errorf("page at %d: %w", at, err)
		}
		if facts.data {
			values += int64(facts.values)
		}
		largest = max(largest, int(header.UncompressedPageSize))
		at += int64(header.CompressedPageSize)
	}
	if values != m.NumValues {
		return fmt.Errorf("its pages have %d values, the footer claims %d", values, m.NumValues)
	}
	if g.open += largest; g.open > maxOpenPageBytes {
		return fmt.Errorf("the pages of its columns take more than %d MiB together", maxOpenPageBytes>>20)
	}
	return nil
}

func checkCodec(c format.CompressionCodec) error {
	switch c {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
		return nil
	}
	return codingError(fmt.Sprintf("it is compressed with %s, and only snappy, gzip, zstd and none are read", c))
}

// header reads a page header and says how long it is.
func (g *pageGuard) header(at, end int64) (*format.PageHeader, int, error) {
	for window := int64(1 << 10); ; window *= 16 {
		data := make([]byte, min(window, end-at))
		if _, err := g.file.file.ReadAt(data, at); err != nil {
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
		err = guarded(func() error {
			r := new(thrift.CompactProtocol).NewReaderFromBytes(data[:n])
			return thrift.NewDecoder(r).Decode(header)
		})
		return header, n, err
	}
}

// facts checks what a page header claims.
func (g *pageGuard) facts(m *format.ColumnMetaData, h *format.PageHeader, body, end int64) (pageFacts, error) {
	plain, packed := int(h.UncompressedPageSize), int(h.CompressedPageSize)
	if plain < 0 || packed < 0 || int64(packed) > end-body {
		return pageFacts{}, errors.New("it lies outside of its column")
	}
	if plain > g.maxPage {
		return pageFacts{}, fmt.Errorf("it takes %d bytes, more than %d MiB", plain, g.maxPage>>20)
	}
	f := pageFacts{codec: m.Codec}
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		v := &h.DataPageHeader.V
		f.data, f.values, f.encoding = true, int(v.NumValues), v.Encoding
		f.repLevels, f.defLevels = v.RepetitionLevelEncoding, v.DefinitionLevelEncoding
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		f.data, f.v2, f.values, f.encoding = true, true, int(v.NumValues), v.Encoding
		f.rep, f.def = int(v.RepetitionLevelsByteLength), int(v.DefinitionLevelsByteLength)
		if v.IsCompressed.Valid && !v.IsCompressed.V {
			f.codec = format.Uncompressed
		}
		if v.NumNulls < 0 || v.NumNulls > v.NumValues || v.NumRows < 0 || v.NumRows > v.NumValues {
			return f, errors.New("it claims more nulls or rows than values")
		}
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		f.values, f.encoding = int(h.DictionaryPageHeader.V.NumValues), h.DictionaryPageHeader.V.Encoding
	default:
		return f, errors.New("it is of no known kind")
	}
	if f.values < 0 || f.values > maxPageValues {
		return f, fmt.Errorf("it claims %d values, at most %d are read", f.values, maxPageValues)
	}
	if f.rep < 0 || f.def < 0 || f.rep+f.def > min(plain, packed) {
		return f, errors.New("its levels are longer than the page")
	}
	return f, nil
}

// content checks what a page holds: the compressed data, the levels and the values.
func (g *pageGuard) content(leaf *parquet.Column, h *format.PageHeader, f *pageFacts, at int64) error {
	levels := f.rep + f.def
	packed, plain := int(h.CompressedPageSize)-levels, int(h.UncompressedPageSize)-levels
	data, err := g.unpack.open(g.file.file, f.codec, at+int64(levels), packed, plain)
	if err != nil {
		return err
	}
	maxRep, maxDef := leaf.MaxRepetitionLevel(), leaf.MaxDefinitionLevel()
	var defined []byte
	switch {
	case !f.data:
		//lint:ignore SA1019 old writers still use it
		if f.encoding != format.Plain && f.encoding != format.PlainDictionary {
			return fmt.Errorf("a dictionary in the encoding %s", f.encoding)
		}
		return nil
	case f.v2:
		front := pageData{file: g.file.file, at: at, size: levels}
		if _, err = checkLevels(&front, f.rep, maxRep, f.values); err == nil {
			defined, err = checkLevels(&front, f.def, maxDef, f.values)
		}
	default:
		if _, err = checkLevelsV1(&data, f.repLevels, maxRep, f.values); err == nil {
			defined, err = checkLevelsV1(&data, f.defLevels, maxDef, f.values)
		}
	}
	switch {
	case err != nil:
		return err
	case isFlatBoolean(leaf):
		g.booleans, err = appendBooleans(g.booleans, &data, f, defined, maxDef)
		return err
	}
	return checkValues(&data, f.encoding, leaf.Type().Kind(), f.values)
}
