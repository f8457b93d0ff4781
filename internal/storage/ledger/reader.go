package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"latentbeam/schemas/fault"
)

// windowBytes is how many bytes of a segment are read at a time. jumpBytes is how many are read after a jump to another offset:
// fewer, because the next read often jumps again, over blobs or to a record elsewhere.
const (
	windowBytes = 64 << 10
	jumpBytes   = 4 << 10
)

// header is a decoded record header.
type header struct {
	key        Key
	status     Status
	rowBytes   uint32
	tableBytes uint32
	blobBytes  uint64
	blobs      uint16
	bodyCRC    uint32
}

// blobEntry is one line of a record's blob table.
type blobEntry struct {
	name string
	at   int64 // offset of the data in the segment
	size int64
	crc  uint32
}

// segmentReader reads one segment through a window, so that blob data is skipped.
type segmentReader struct {
	name   string
	file   io.ReaderAt
	size   int64
	window []byte // bytes of the file, starting at start
	start  int64
	buffer []byte
}

func newReader() *segmentReader { return &segmentReader{buffer: make([]byte, windowBytes)} }

// reset points the reader at another segment.
func (r *segmentReader) reset(name string, file io.ReaderAt, size int64) {
	r.name, r.file, r.size, r.window, r.start = name, file, size, nil, 0
}

func (r *segmentReader) damaged(offset int64, format string, args ...any) error {
	return fault.Fatal(&DamagedError{r.name, offset, fmt.Sprintf(format, args...)})
}

// unread marks an error of the store: what could not be read may be readable at the next run.
func (r *segmentReader) unread(offset int64, err error) error {
	err = fmt.Errorf("read ledger segment %s at byte %d: %w", r.name, offset, err)
	if fault.ClassOf(err) == fault.ClassRow { // it has no class yet
		return fault.TryAgain(err)
	}
	return err
}

// bytes returns n bytes at offset. They are valid until the next call. It never allocates more than the size of the file.
func (r *segmentReader) bytes(offset int64, n int) ([]byte, error) {
	if offset < 0 || int64(n) > r.size-offset {
		return nil, r.damaged(offset, "%d bytes expected, the file has %d", n, max(r.size-offset, 0))
	}
	if from := offset - r.start; from >= 0 && from+int64(n) <= int64(len(r.window)) {
		return r.window[from : from+int64(n)], nil
	}
	if n > len(r.buffer) {
		r.buffer = make([]byte, n)
	}
	ahead := len(r.buffer)
	if offset < r.start || offset > r.start+int64(len(r.window))+windowBytes {
		ahead = min(ahead, max(n, jumpBytes))
	}
	r.window = r.buffer[:min(int64(ahead), r.size-offset)]
	r.start = offset
	if got, err := r.file.ReadAt(r.window, offset); got < len(r.window) {
		r.window = nil
		if errors.Is(err, io.EOF) {
			return nil, r.damaged(offset+int64(got), "the file ends here")
		}
		return nil, r.unread(offset, err)
	}
	return r.window[:n], nil
}

// scan calls fn for every record in order: its offset, header and body (row and blob table, valid during the call). It verifies
// all checksums except those of blob data.
func (r *segmentReader) scan(fn func(offset int64, h header, body []byte) error) error {
	count, size, err := r.fileHeader()
	switch {
	case err != nil:
		return err
	case r.size > segmentFileBytesMax:
		return r.damaged(0, "it has %d bytes, the limit is %d", r.size, int64(segmentFileBytesMax))
	case size != uint64(r.size):
		return r.damaged(0, "it has %d bytes, %d were written", r.size, size)
	}
	offset := int64(headerBytes)
	for range count {
		h, err := r.header(offset)
		if err != nil {
			return err
		}
		body, err := r.body(offset, h)
		if err != nil {
			return err
		}
		if err := fn(offset, h, body); err != nil {
			return err
		}
		if offset, err = r.recordEnd(offset, h); err != nil {
			return err
		}
	}
	if offset != r.size {
		return r.damaged(offset, "%d bytes after the last record", r.size-offset)
	}
	return nil
}

// fileHeader reads and checks the header of the segment: the number of records and bytes that were written. A newer version is
// an error that does not mean damage.
func (r *segmentReader) fileHeader() (count uint32, size uint64, err error) {
	b, err := r.bytes(0, headerBytes)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case [8]byte(b) != magic:
		return 0, 0, r.damaged(0, "it does not start with %q", magic)
	case binary.LittleEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli):
		return 0, 0, r.damaged(0, "wrong checksum of the file header")
	case binary.LittleEndian.Uint32(b[8:]) != version:
		return 0, 0, fault.Usage(fmt.Errorf("ledger segment %s has version %d, this program reads %d; use a newer latentbeam",
			r.name, binary.LittleEndian.Uint32(b[8:]), version))
	case binary.LittleEndian.Uint32(b[24:]) != 0:
		return 0, 0, r.damaged(24, "reserved bytes are not zero")
	}
	return binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:]), nil
}

// header reads and checks the record header at offset.
func (r *segmentReader) header(offset int64) (header, error) {
	b, err := r.bytes(offset, recordHeaderBytes)
	if err != nil {
		return header{}, err
	}
	h, why := parseHeader(b)
	if why != "" {
		return header{}, r.damaged(offset, "%s", why)
	}
	return h, nil
}

// parseHeader decodes and checks a record header. why is empty if the header is intact. It is fast for bad headers, because it
// is used to search a damaged segment.
func parseHeader(b []byte) (h header, why string) {
	h = header{
		key: Key(b[:32]), status: Status(b[50]),
		rowBytes: binary.LittleEndian.Uint32(b[32:]), tableBytes: binary.LittleEndian.Uint32(b[36:]),
		blobBytes: binary.LittleEndian.Uint64(b[40:]), blobs: binary.LittleEndian.Uint16(b[48:]),
		bodyCRC: binary.LittleEndian.Uint32(b[56:]),
	}
	switch {
	case h.status != Done && h.status != Failed:
		why = "unknown status"
	case [5]byte(b[51:]) != [5]byte{}:
		why = "reserved bytes are not zero"
	case h.rowBytes > rowBytesMax || h.tableBytes > tableBytesMax || h.blobs > blobsMax,
		h.blobBytes > recordBytesMax:
		why = "a length is over its limit"
	case binary.LittleEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli):
		why = "wrong checksum of a record header"
	}
	return h, why
}

// body reads and checks the row and the blob table of the record at offset.
func (r *segmentReader) body(offset int64, h header) ([]byte, error) {
	body, err := r.bytes(offset+recordHeaderBytes, int(h.rowBytes+h.tableBytes))
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(body, castagnoli) != h.bodyCRC {
		return nil, r.damaged(offset+recordHeaderBytes, "wrong checksum of a row")
	}
	return body, nil
}

// recordEnd returns the start of the next record. The bytes before it must be zero padding.
func (r *segmentReader) recordEnd(offset int64, h header) (int64, error) {
	end := offset + recordHeaderBytes + int64(h.rowBytes) + int64(h.tableBytes) + int64(h.blobBytes)
	pad, err := r.bytes(end, int(-end&(recordAlign-1)))
	if err != nil {
		return 0, err
	}
	for _, b := range pad {
		if b != 0 {
			return 0, r.damaged(end, "padding is not zero")
		}
	}
	return end + int64(len(pad)), nil
}

// blobs decodes the blob table of the record at offset from its body.
func (r *segmentReader) blobs(offset int64, h header, body []byte) ([]blobEntry, error) {
	if h.blobs == 0 && h.tableBytes == 0 && h.blobBytes == 0 {
		return nil, nil
	}
	table := body[h.rowBytes:]
	at := offset + recordHeaderBytes + int64(len(body))
	left := int64(h.blobBytes)
	entries := make([]blobEntry, h.blobs)
	for i := range entries {
		if len(table) < 2 || len(table) < blobEntryBytes+int(binary.LittleEndian.Uint16(table)) {
			return nil, r.damaged(offset, "a blob table is too short")
		}
		n := int(binary.LittleEndian.Uint16(table))
		size := binary.LittleEndian.Uint64(table[2+n:])
		if size > uint64(left) {
			return nil, r.damaged(offset, "a blob is longer than its record")
		}
		crc := binary.LittleEndian.Uint32(table[10+n:])
		entries[i] = blobEntry{string(table[2 : 2+n]), at, int64(size), crc}
		table, at, left = table[blobEntryBytes+n:], at+int64(size), left-int64(size)
	}
	if len(table) != 0 || left != 0 {
		return nil, r.damaged(offset, "a blob table does not match its record")
	}
	return entries, nil
}

// blob reads the data of one blob and checks it.
func (r *segmentReader) blob(e blobEntry) ([]byte, error) {
	if e.size > r.size-e.at {
		return nil, r.damaged(e.at, "a blob ends after the file")
	}
	data := make([]byte, e.size)
	if from := e.at - r.start; from >= 0 && from+e.size <= int64(len(r.window)) {
		copy(data, r.window[from:])
	} else if n, err := r.file.ReadAt(data, e.at); n < len(data) {
		if errors.Is(err, io.EOF) {
			return nil, r.damaged(e.at+int64(n), "the file ends here")
		}
		return nil, r.unread(e.at, err)
	}
	if crc32.Checksum(data, castagnoli) != e.crc {
		return nil, r.damaged(e.at, "wrong checksum of blob %q", e.name)
	}
	return data, nil
}

// checkBlob checks the data of one blob without loading all of it.
func (r *segmentReader) checkBlob(e blobEntry) error {
	if e.size > r.size-e.at {
		return r.damaged(e.at, "a blob ends after the file")
	}
	crc, left := uint32(0), e.size
	for at := e.at; left > 0; {
		b, err := r.bytes(at, int(min(left, windowBytes)))
		if err != nil {
			return err
		}
		crc = crc32.Update(crc, castagnoli, b)
		at, left = at+int64(len(b)), left-int64(len(b))
	}
	if crc != e.crc {
		return r.damaged(e.at, "wrong checksum of blob %q", e.name)
	}
	return nil
}
