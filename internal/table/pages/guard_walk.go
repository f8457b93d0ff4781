package pages

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Chunk is the result of checking a column chunk.
type Chunk struct {
	Spans      []DataPage
	Dictionary int64 // offset of an intact dictionary; 0: none
	End        int64 // offset after the last page
}

// DataPage is one data page.
type DataPage struct {
	At     int64 // offset of its header
	values int   // with nulls
	Rows   int   // rows that start in the page
	damage error // why its rows cannot be read; nil: no problem was found
	// Loose pages may start in the middle of a row, so the rows of a damaged one are not known.
	Loose bool
}

// Rows returns the number of rows in all pages.
func (p *Chunk) Rows() (n int64) {
	for i := range p.Spans {
		n += int64(p.Spans[i].Rows)
	}
	return n
}

// chunkWalk iterates over the pages of a column chunk.
type chunkWalk struct {
	guard   *Guard
	meta    *format.ColumnMetaData
	leaf    *parquet.Column
	at, end int64
	values  int64 // of the data pages so far
	largest int
	pages   Chunk
	noDict  error // why the dictionary cannot be read
	summed  bool  // the content of data pages with a checksum is not checked: the file is trusted, and the library compares checksums
}

// dictionary checks the page before the data pages. If it is damaged, the footer says where the data pages start, and pages
// that do not use it can still be read.
func (w *chunkWalk) dictionary() error {
	start := w.at
	header, body, err := w.header()
	if err == nil && header.Type != format.DictionaryPage {
		err = errors.New("it is none")
	}
	if err == nil {
		err = w.takeDictionary(header, start, body)
	}
	if err == nil {
		return nil
	}
	if fatal := w.fatal(err); fatal != nil {
		return fmt.Errorf("dictionary at byte %d: %w", start, fatal)
	}
	w.noDict = fmt.Errorf("its dictionary, at byte %d: %w", start, err)
	w.at = w.meta.DataPageOffset
	return nil
}

// takeDictionary checks a dictionary page and moves past it.
func (w *chunkWalk) takeDictionary(header *format.PageHeader, start, body int64) error {
	facts, err := w.guard.facts(w.meta, header, body, w.end)
	if err == nil {
		err = w.guard.content(w.leaf, header, &facts, body)
	}
	if err == nil {
		err = w.checksum(header, body)
	}
	if err == nil {
		w.pages.Dictionary = start
		w.largest = max(w.largest, int(header.UncompressedPageSize))
		w.at = body + int64(header.CompressedPageSize)
	}
	return err
}

func (w *chunkWalk) header() (header *format.PageHeader, body int64, err error) {
	header, length, err := w.guard.Header(w.at, w.end)
	return header, w.at + int64(length), err
}

// page checks the next page. An error ends the chunk.
func (w *chunkWalk) page() error {
	header, body, err := w.header()
	if err != nil {
		return err
	}
	facts, err := w.guard.facts(w.meta, header, body, w.end)
	if err != nil {
		return err
	}
	behind := body + int64(header.CompressedPageSize)
	if !facts.data { // the footer does not say where the dictionary is
		if err := w.takeDictionary(header, w.at, body); err != nil {
			if fatal := w.fatal(err); fatal != nil {
				return fatal
			}
			w.noDict, w.at = fmt.Errorf("its dictionary, at byte %d: %w", w.at, err), behind
		}
		return nil
	}
	repeated := w.leaf.MaxRepetitionLevel() > 0
	if !repeated && facts.rows != facts.values {
		return fmt.Errorf("it claims %d rows and %d values", facts.rows, facts.values)
	}
	span := DataPage{At: w.at, values: facts.values, Loose: repeated && !facts.v2}
	before := len(w.guard.Booleans)
	if span.damage = w.check(header, &facts, body); span.damage != nil {
		if fatal := w.fatal(span.damage); fatal != nil || span.Loose {
			return span.damage
		}
		w.guard.Booleans = slices.Grow(w.guard.Booleans[:before], facts.values)[:before+facts.values]
	} else {
		w.largest = max(w.largest, int(header.UncompressedPageSize))
	}
	span.Rows = facts.rows
	w.pages.Spans = append(w.pages.Spans, span)
	w.values += int64(facts.values)
	w.at = behind
	return nil
}

// check returns what is wrong with a data page.
func (w *chunkWalk) check(header *format.PageHeader, f *pageFacts, body int64) error {
	if usesDictionary(f.encoding) && w.noDict != nil {
		return w.noDict
	}
	split := slices.Contains(w.meta.Encoding, format.ByteStreamSplit)
	if f.encoding == format.ByteStreamSplit && !split ||
		f.encoding == format.Plain && split && !slices.Contains(w.meta.Encoding, format.Plain) {
		return errors.New("the footer knows another encoding") // both take the same number of bytes, and nothing else distinguishes them
	}
	if isFlatBoolean(w.leaf) { // the library does not read these pages
		if err := w.checksum(header, body); err != nil {
			return err
		}
	}
	if w.summed && header.CRC != 0 && int(header.UncompressedPageSize) <= w.guard.MaxPage {
		return nil
	}
	return w.guard.content(w.leaf, header, f, body)
}

func usesDictionary(e format.Encoding) bool {
	//nolint:staticcheck // SA1019: old writers still use it
	return e == format.RLEDictionary || e == format.PlainDictionary
}

// checksum compares a page with its checksum, if it has one.
func (w *chunkWalk) checksum(header *format.PageHeader, body int64) error {
	if header.CRC == 0 {
		return nil
	}
	sum := crc32.NewIEEE()
	_, err := io.Copy(sum, io.NewSectionReader(w.guard.File.file, body, int64(header.CompressedPageSize)))
	if err == nil && sum.Sum32() != uint32(header.CRC) {
		err = errors.New("its checksum is another one")
	}
	return err
}

// limitError says that a page is too large.
type limitError string

func (e limitError) Error() string { return string(e) }

// fatal returns err if it means that the file is intact but not supported, or that reading failed. A page that claims more than
// the footer is damaged.
func (w *chunkWalk) fatal(err error) error {
	if failed := w.guard.File.Failed(); failed != nil {
		return failed
	}
	var coding codingError
	var limit limitError
	switch {
	case errors.As(err, &coding) && coding.known(w.meta.Encoding):
		return err
	case errors.As(err, &limit) && w.meta.TotalUncompressedSize > int64(w.guard.MaxPage):
		return err
	}
	return nil
}

// countRows counts the rows that start in a page of a column with repeated values.
func (f *pageFacts) countRows(runs []byte, maxRep int) error {
	if maxRep == 0 {
		return nil
	}
	levels, err := f.expand(runs, maxRep)
	if err != nil {
		return err
	}
	rows := 0
	for _, l := range levels {
		if l == 0 {
			rows++
		}
	}
	if f.v2 && rows != f.rows {
		return fmt.Errorf("it has %d rows and claims %d", rows, f.rows)
	}
	f.rows = rows
	return nil
}

// present counts the values of a page that are not null.
func (f *pageFacts) present(runs []byte, maxDef int) (int, error) {
	n := f.values
	if maxDef > 0 {
		levels, err := f.expand(runs, maxDef)
		if err != nil {
			return 0, err
		}
		n = 0
		for _, l := range levels {
			if int(l) == maxDef {
				n++
			}
		}
	}
	if f.v2 && f.rows == f.values && n != f.values-f.nulls { // for lists, writers disagree about what a null is
		return 0, fmt.Errorf("it has %d nulls and claims %d", f.values-n, f.nulls)
	}
	return n, nil
}

// expand decodes the levels of a page.
func (f *pageFacts) expand(runs []byte, maxLevel int) ([]byte, error) {
	levels := make([]byte, f.values)
	if n := expandRuns(levels, runs, bits.Len(uint(maxLevel))); n != f.values {
		return nil, fmt.Errorf("it has %d levels for %d values", n, f.values)
	}
	if len(levels) > 0 && int(slices.Max(levels)) > maxLevel {
		return nil, errors.New("it has a level that its column does not have")
	}
	return levels, nil
}
