package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// runSlack is how many extra values a page's runs may have: bit-packed runs are filled up to groups of eight, and some writers
// fill whole words.
const runSlack = 504

// codingError is an unsupported codec or encoding. The file may be intact.
type codingError struct {
	text     string
	codec    bool
	encoding format.Encoding // set if it is not a codec
}

func unreadEncoding(what string, e format.Encoding) error {
	return codingError{text: fmt.Sprintf("%s, %s, is not read", what, e), encoding: e}
}

func (e codingError) Error() string { return e.text }

// known reports whether the footer names the encoding too. If not, the page that names it is damaged.
func (e codingError) known(encodings []format.Encoding) bool {
	return e.codec || slices.Contains(encodings, e.encoding)
}

var (
	errRunsShort = errors.New("its runs end in the middle")
	errFewValues = errors.New("it has fewer values than it claims")
)

// wholeTextBytes is the size up to which the texts of a page are read at once for counting.
const wholeTextBytes = 1 << 20

// checkValues checks that a data page has exactly as many encoded values as it claims. The library allocates by the claims of
// the encodings, and fills missing values with old memory.
func checkValues(data *pageData, encoding format.Encoding, typ parquet.Type, values int) error {
	switch encoding {
	case format.Plain:
		return checkPlain(data, typ, values)
	case format.ByteStreamSplit:
		if typ.Kind() == parquet.ByteArray {
			return unreadEncoding("its encoding", encoding)
		}
		return checkPlain(data, typ, values)
	//nolint:staticcheck // SA1019: old writers still use it
	case format.PlainDictionary, format.RLEDictionary, format.DeltaBinaryPacked, format.DeltaLengthByteArray,
		format.DeltaByteArray:
	default:
		return unreadEncoding("its encoding", encoding)
	}
	if data.size == 0 {
		if values > 0 {
			return errFewValues
		}
		return nil
	}
	b, err := data.next(data.size)
	if err != nil {
		return err
	}
	switch {
	case usesDictionary(encoding):
		return checkRuns(b[1:], int(b[0]), values)
	case encoding == format.DeltaByteArray:
		return checkPrefixes(b, values)
	}
	width := 32
	if encoding == format.DeltaBinaryPacked && typ.Kind() == parquet.Int64 {
		width = 64
	}
	_, err = checkDelta(b, width, values)
	return err
}

// checkPlain checks that there are enough bytes for the plain values.
func checkPlain(data *pageData, typ parquet.Type, values int) error {
	need := 0
	switch typ.Kind() {
	case parquet.ByteArray:
		return checkTexts(data, values)
	case parquet.Boolean:
		need = (values + 7) / 8
	case parquet.Int32, parquet.Float:
		need = 4 * values
	case parquet.Int64, parquet.Double:
		need = 8 * values
	case parquet.Int96:
		need = 12 * values
	case parquet.FixedLenByteArray:
		need = typ.Length() * values
	}
	if data.size < need {
		return errFewValues
	}
	return nil
}

// checkTexts counts texts with a length prefix.
func checkTexts(data *pageData, values int) error {
	if data.size <= wholeTextBytes {
		b, err := data.next(data.size)
		if err != nil {
			return err
		}
		*data = pageData{memory: b, size: len(b)}
	}
	for range values {
		if data.size == 0 {
			return errFewValues
		}
		head, err := data.next(4)
		if err == nil {
			err = data.skip(int(binary.LittleEndian.Uint32(head)))
		}
		if err != nil {
			return err
		}
	}
	if data.size > 0 {
		return fmt.Errorf("it has more than its %d values", values)
	}
	return nil
}

// checkLevelsV1 checks levels with a length prefix, as in version 1 pages, and returns their runs.
func checkLevelsV1(data *pageData, encoding format.Encoding, maxLevel, values int) ([]byte, error) {
	if maxLevel == 0 {
		return nil, nil
	}
	if encoding != format.RLE {
		return nil, unreadEncoding("the encoding of its levels", encoding)
	}
	head, err := data.next(4)
	if err != nil {
		return nil, err
	}
	return checkLevels(data, int(binary.LittleEndian.Uint32(head)), maxLevel, values)
}

// checkLevels checks the next n bytes as runs of levels and returns them.
func checkLevels(data *pageData, n, maxLevel, values int) ([]byte, error) {
	b, err := data.next(n)
	if err != nil || maxLevel == 0 {
		return nil, err
	}
	return b, checkRuns(b, bits.Len(uint(maxLevel)), values)
}

// checkRuns checks that run-length and bit-packed runs have as many values as their page, and not more.
func checkRuns(b []byte, width, values int) error {
	if width > 32 {
		return fmt.Errorf("its runs have values of %d bits", width)
	}
	total := 0
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return errRunsShort
		}
		b = b[n:]
		count := head >> 1
		if count > maxPageValues {
			return fmt.Errorf("a run claims %d values", count)
		}
		length := (width + 7) / 8
		if head&1 != 0 {
			length = int(count) * width // count is in groups of eight values
			count *= 8
		}
		if length > len(b) {
			return errRunsShort
		}
		b = b[length:]
		if total += int(count); total > values+runSlack {
			return fmt.Errorf("its runs hold more than its %d values", values)
		}
	}
	if total < values {
		return errFewValues
	}
	return nil
}

// checkDelta checks delta-encoded numbers: their count compared to the page's values, and the position and width of each
// miniblock. It returns the data after them.
func checkDelta(b []byte, maxWidth, values int) (rest []byte, err error) {
	var head [3]uint64 // block size, miniblocks in a block, values
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errRunsShort
		}
		head[i], b = v, b[n:]
	}
	_, n := binary.Varint(b)
	if n <= 0 {
		return nil, errRunsShort
	}
	b = b[n:]
	const maxBlock = 1 << 16
	block, minis, total := head[0], head[1], head[2]
	if total != uint64(values) {
		return nil, fmt.Errorf("its deltas claim %d values, the page %d", total, values)
	}
	if block == 0 || block > maxBlock || minis == 0 || minis > block || block%minis != 0 || block/minis%32 != 0 {
		return nil, errors.New("its delta blocks have no valid size")
	}
	perMini := block / minis
	for left := int64(total) - 1; left > 0; {
		_, n := binary.Varint(b)
		if n <= 0 || uint64(len(b)-n) < minis {
			return nil, errRunsShort
		}
		widths := b[n : n+int(minis)]
		b = b[n+int(minis):]
		for _, width := range widths {
			if left <= 0 {
				break
			}
			length := int(perMini) * int(width) / 8
			if int(width) > maxWidth {
				return nil, fmt.Errorf("its deltas have %d bits", width)
			}
			if length > len(b) {
				return nil, errRunsShort
			}
			b = b[length:]
			left -= int64(perMini)
		}
	}
	return b, nil
}

// checkPrefixes bounds the decoded size of DELTA_BYTE_ARRAY pages. Each text repeats the start of the one before, so the
// decoded size can be far larger than the page.
func checkPrefixes(b []byte, values int) error {
	rest, err := checkDelta(b, 32, values)
	if err == nil {
		_, err = checkDelta(rest, 32, values)
	}
	if err != nil {
		return err
	}
	var lengths []int32
	err = Guarded(func() error {
		lengths, err = new(delta.BinaryPackedEncoding).DecodeInt32(nil, b[:len(b)-len(rest)])
		return err
	})
	total := 0
	for _, n := range lengths {
		if n < 0 {
			return errors.New("a text repeats less than nothing of the one before")
		}
		if total += int(n); total > MaxPromptPageBytes {
			return fmt.Errorf("its texts take more than %d MiB when written out", MaxPromptPageBytes>>20)
		}
	}
	return err
}
