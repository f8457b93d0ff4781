package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Values of a boolean column are decoded here, one byte each. parquet-go 0.32.0 decodes a run of true in version 2 pages, as
// pyarrow and DuckDB write them, as one true and seven times false.
const (
	isFalse = 0
	isTrue  = 1
	isNull  = 2
)

// isFlatBoolean reports whether a column has one boolean for each row.
func isFlatBoolean(c *parquet.Column) bool {
	return c.Type().Kind() == parquet.Boolean && c.MaxRepetitionLevel() == 0 && len(c.Path()) == 1
}

// appendBooleans decodes one page. defined are the runs of its definition levels, which have been checked.
func appendBooleans(dst []byte, data *pageData, f *pageFacts, defined []byte, maxDef int) ([]byte, error) {
	levels := make([]byte, f.values)
	present := f.values
	if maxDef > 0 {
		n := expandRuns(levels, defined, bits.Len(uint(maxDef)))
		if n != f.values {
			return dst, fmt.Errorf("it has %d levels for %d values", n, f.values)
		}
		present = 0
		for _, l := range levels {
			present += int(l) / maxDef
		}
	}
	values := make([]byte, present)
	switch f.encoding {
	case format.Plain:
		b, err := data.next((present + 7) / 8)
		if err != nil {
			return dst, err
		}
		for i := range values {
			values[i] = b[i/8] >> (i % 8) & 1
		}
	case format.RLE:
		runs, err := checkLevelsV1(data, format.RLE, 1, present)
		if err != nil {
			return dst, err
		}
		if n := expandRuns(values, runs, 1); n != present {
			return dst, errors.New("its runs end early")
		}
	default:
		return dst, unreadEncoding("its encoding", f.encoding)
	}
	for _, l := range levels {
		if maxDef > 0 && int(l) < maxDef {
			dst = append(dst, isNull)
			continue
		}
		dst = append(dst, values[0])
		values = values[1:]
	}
	return dst, nil
}

// expandRuns decodes runs of values of at most eight bits, which checkRuns has checked, until dst is full. It returns their
// number.
func expandRuns(dst, runs []byte, width int) int {
	at := 0
	for len(runs) > 0 && at < len(dst) {
		head, n := binary.Uvarint(runs)
		runs = runs[n:]
		count := int(head >> 1)
		if head&1 == 0 {
			for range min(count, len(dst)-at) {
				dst[at] = runs[0]
				at++
			}
			runs = runs[1:]
			continue
		}
		for i := range min(8*count, len(dst)-at) {
			bit := i * width
			word := uint16(runs[bit/8])
			if bit/8+1 < len(runs) {
				word |= uint16(runs[bit/8+1]) << 8
			}
			dst[at] = byte(word >> (bit % 8) & (1<<width - 1))
			at++
		}
		runs = runs[count*width:]
	}
	return at
}
