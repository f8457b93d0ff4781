package read

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/typed"
)

// csvReader reads comma separated values with a header (RFC 4180). The separator may also be a semicolon, a tab or a bar. A
// quote that is not closed would swallow all later rows. So reading then restarts at the second line of the bad record, and
// only one row is lost.
type csvReader struct {
	path     string
	file     *text
	csv      *csv.Reader
	budget   *budgetReader
	buf      *bufio.Reader
	base     int64 // offset in the file where csv started
	baseLine int   // number of lines before that offset
	line     int   // total number of lines read
	comma    rune
	names    names
	skipped  int // rows that consist of separators only
	columns  []string
	fields   []int    // field of each column, or carried
	also     []bool   // whether a column that is a field is also carried
	keys     [][]byte // JSON key and colon of each carried column
}

// budgetReader fails when a record needs more than left bytes.
type budgetReader struct {
	r    io.Reader
	left int
}

func (b *budgetReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func openCSV(path string, names names) (rowReader, error) {
	lines, err := openLines(path) // openLines checks the first bytes of the file
	if err != nil {
		return nil, err
	}
	r := &csvReader{path: path, file: lines.file, buf: lines.buf, names: names}
	if err := r.readHeader(names); err != nil {
		_ = r.file.close()
		return nil, err
	}
	return r, nil
}

// readHeader reads the names of the columns, using the first separator with which all required columns are found. If there is
// none, the error refers to the separator that gives the most columns.
func (r *csvReader) readHeader(names names) error {
	var head [3]byte
	if n, _ := r.file.ReadAt(head[:], 0); bytes.Equal(head[:n], utf8BOM) {
		r.base = int64(len(utf8BOM))
	}
	begin := r.base
	var problem error
	most := 0
	for _, comma := range commasOf(r.path, names.comma) {
		r.comma, r.columns, r.also, r.keys, r.line = comma, nil, nil, nil, 0
		if err := r.restart(begin); err != nil {
			return err
		}
		err := r.headerBy(names)
		if err == nil {
			return nil
		}
		if problem == nil || len(r.columns) > most {
			problem, most = err, len(r.columns)
		}
	}
	return problem
}

// commasOf lists the possible separators of a file, most likely first.
func commasOf(path string, given rune) []rune {
	switch {
	case given != 0:
		return []rune{given}
	case textFormat(path) == "csv" && strings.Contains(strings.ToLower(filepath.Base(path)), ".tsv"):
		return []rune{'\t', ',', ';', '|'}
	}
	return []rune{',', ';', '\t', '|'}
}

// commaName returns the plural name of a separator.
func commaName(comma rune) string {
	if name := map[rune]string{',': "commas", ';': "semicolons", '\t': "tabs", '|': "bars"}[comma]; name != "" {
		return name
	}
	return string(comma)
}

// headerBy reads the names of the columns with the current separator.
func (r *csvReader) headerBy(names names) error {
	pos := document.Position{File: r.path, Line: 1}
	record, err := r.read()
	switch {
	case errors.Is(err, io.EOF):
		return document.NewError(pos, "the file is empty").WithFix("its first line must name the columns: prompt,seed")
	case err != nil:
		return document.NewError(pos, "the line of column names cannot be read: %v", err).
			WithFix("its first line must name the columns: prompt,seed")
	}
	r.countLines(record)
	for i, name := range record {
		if name == "" { // pandas writes its index with an empty name
			name = fmt.Sprintf("column_%d", i+1)
		}
		if !utf8.ValidString(name) {
			return document.NewError(pos, "the name of column %d is not valid UTF-8", i+1).
				WithFix("save the file as UTF-8")
		}
		r.columns = append(r.columns, name)
	}
	if r.fields, err = names.header(r.path, r.columns); err != nil {
		return err
	}
	for i, name := range r.columns {
		r.also = append(r.also, r.fields[i] != carried && names.carries(name, r.fields[i]))
		r.keys = append(r.keys, append(typed.AppendJSONText(nil, name), ':'))
	}
	return nil
}

// restart starts to read records at an offset of the file.
func (r *csvReader) restart(offset int64) error {
	if _, err := r.file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	r.base = offset
	r.budget = &budgetReader{r: r.file}
	r.buf.Reset(r.budget)
	r.csv = csv.NewReader(r.buf)
	r.csv.Comma = r.comma
	r.csv.FieldsPerRecord = -1
	r.csv.ReuseRecord = true
	return nil
}

func (r *csvReader) read() ([]string, error) {
	r.budget.left = typed.MaxRecordBytes
	return r.csv.Read()
}

// countLines updates the current line after a record: its last value may span several lines.
func (r *csvReader) countLines(record []string) {
	last := len(record) - 1
	line, _ := r.csv.FieldPos(last)
	r.line = r.baseLine + line + strings.Count(record[last], "\n")
}

func (r *csvReader) next(raw *rawRow) error {
	start := r.base + r.csv.InputOffset()
	record, err := r.read()
	for err == nil && r.isBlank(record) {
		r.countLines(record)
		r.skipped++
		start = r.base + r.csv.InputOffset()
		record, err = r.read()
	}
	if errors.Is(err, io.EOF) {
		r.names.uses.skip(r.path, r.skipped)
	}
	if err != nil {
		return r.recover(raw, start, err)
	}
	line, _ := r.csv.FieldPos(0)
	raw.line = r.baseLine + line
	r.countLines(record)
	if len(record) != len(r.columns) {
		raw.fault = fmt.Sprintf("the row has %d values and the header %d", len(record), len(r.columns))
		raw.fix = "put values that contain " + commaName(r.comma) + " in quotes"
	}
	for i, text := range record[:min(len(record), len(r.columns))] {
		if field := r.fields[i]; field != carried {
			raw.values[field] = typed.Cell{Kind: typed.TextValue, Text: text}
			if !r.also[i] {
				continue
			}
		}
		if !utf8.ValidString(text) && raw.fault == "" {
			raw.fault, raw.fix = r.columns[i]+": not valid UTF-8", "save the file as UTF-8"
		}
		if len(raw.extra) > 0 {
			raw.extra = append(raw.extra, ',')
		}
		raw.extra = append(raw.extra, r.keys[i]...)
		raw.extra = typed.AppendJSONText(raw.extra, text)
	}
	return nil
}

// isBlank reports whether a record consists of separators only, as spreadsheets write empty rows after a table.
func (r *csvReader) isBlank(record []string) bool {
	for _, value := range record {
		if value != "" {
			return false
		}
	}
	last := len(record) - 1
	_, column := r.csv.FieldPos(last)
	return last > 0 && column == last+1 // no quotes
}

// recover makes a bad row from a record that is not valid csv. If the record spans several lines, it moves back to the second
// line.
func (r *csvReader) recover(raw *rawRow, start int64, err error) error {
	var syntax *csv.ParseError
	tooLong := errors.Is(err, errTooLong)
	if !errors.As(err, &syntax) && !tooLong {
		return err
	}
	if !tooLong && syntax.StartLine == syntax.Line {
		raw.line = r.baseLine + syntax.Line
		raw.fault = fmt.Sprintf("not csv: %v", syntax.Err)
		raw.fix = `put the value in quotes and write each quote in it twice: "a ""b"" c"`
		r.line = raw.line
		return nil
	}
	lines, end, err := r.firstLine(start)
	if err != nil {
		return err
	}
	r.line += lines
	raw.line = r.line
	raw.fault = "a quote that opens here is not closed as csv wants it"
	raw.fix = `close it, and write each quote inside of quotes twice: "a ""b"" c"`
	if tooLong {
		raw.fault = "the record is " + errTooLong.Error() + ", or has " + raw.fault
	}
	r.baseLine = r.line
	return r.restart(end)
}

// firstLine returns the end of the first non-empty line at or after an offset, and the number of lines up to there.
func (r *csvReader) firstLine(offset int64) (lines int, end int64, err error) {
	r.buf.Reset(io.NewSectionReader(r.file, offset, math.MaxInt64-offset))
	content := false
	for end = offset; ; {
		part, err := r.buf.ReadSlice('\n')
		end += int64(len(part))
		if len(bytes.TrimRight(part, "\r\n")) > 0 {
			content = true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return lines + 1, end, nil
		case err != nil:
			return 0, 0, err
		}
		lines++
		if content {
			return lines, end, nil
		}
	}
}

func (r *csvReader) close() error { return r.file.close() }
