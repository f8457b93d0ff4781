package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Limits for one record and for one segment.
const (
	rowBytesMax      = 16 << 20
	blobsMax         = 64
	blobNameBytesMax = 255
	recordBytesMax   = 8 << 30
	segmentBytesMax  = 1 << 30 // a longer commit is divided into several segments

	// A segment has at least one record, whatever its size.
	segmentFileBytesMax = segmentBytesMax + recordBytesMax
)

const (
	headerBytes       = 32
	recordHeaderBytes = 64
	blobEntryBytes    = 2 + 8 + 4 // entry of the table, without the name
	tableBytesMax     = blobsMax * (blobEntryBytes + blobNameBytesMax)
	recordAlign       = 8
	version           = 1
)

var (
	magic      = [8]byte([]byte("LBLEDGER"))
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Blob is a named piece of binary data of a record, such as the bytes of a tensor.
type Blob struct {
	Name string
	Data []byte // nil if Read or Each returned the record
	Size int64  // length of the data in bytes; set by Read and Each, ignored by Commit
}

// Record is everything that the ledger stores about one element.
type Record struct {
	Key    Key
	Status Status // Done or Failed
	Row    []byte // a JSON document; the ledger does not interpret it
	Blobs  []Blob
}

// check returns an error for records that cannot be written or would be ambiguous.
func (r *Record) check() error {
	why := ""
	size := int64(recordHeaderBytes + len(r.Row))
	names := map[string]bool{}
	for _, b := range r.Blobs {
		switch {
		case b.Name == "" || len(b.Name) > blobNameBytesMax:
			why = fmt.Sprintf("blob name %.80q must have 1 to %d bytes", b.Name, blobNameBytesMax)
		case names[b.Name]:
			why = fmt.Sprintf("two blobs are called %q", b.Name)
		}
		names[b.Name] = true
		size += int64(blobEntryBytes + len(b.Name) + len(b.Data))
	}
	switch {
	case r.Status != Done && r.Status != Failed:
		why = fmt.Sprintf("%v cannot be recorded", r.Status)
	case len(r.Row) > rowBytesMax:
		why = fmt.Sprintf("the row has %d bytes, the limit is %d", len(r.Row), rowBytesMax)
	case len(r.Blobs) > blobsMax:
		why = fmt.Sprintf("%d blobs, the limit is %d", len(r.Blobs), blobsMax)
	case size > recordBytesMax:
		why = fmt.Sprintf("%d bytes in all, the limit is %d", size, int64(recordBytesMax))
	}
	if why != "" {
		return fmt.Errorf("ledger record %v: %s", r.Key, why)
	}
	return nil
}

// size returns the length of the encoded record in bytes, with padding.
func (r *Record) size() int {
	n := recordHeaderBytes + len(r.Row)
	for _, b := range r.Blobs {
		n += blobEntryBytes + len(b.Name) + len(b.Data)
	}
	return (n + recordAlign - 1) / recordAlign * recordAlign
}

// appendTo encodes a checked record.
func (r *Record) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, recordHeaderBytes)...)
	dst = append(dst, r.Row...)
	blobBytes := 0
	for _, b := range r.Blobs {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(b.Name)))
		dst = append(dst, b.Name...)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(b.Data)))
		dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(b.Data, castagnoli))
		blobBytes += len(b.Data)
	}
	body := dst[start+recordHeaderBytes:]
	for _, b := range r.Blobs {
		dst = append(dst, b.Data...)
	}
	dst = append(dst, make([]byte, start+r.size()-len(dst))...)

	h := dst[start : start+recordHeaderBytes]
	copy(h, r.Key[:])
	binary.LittleEndian.PutUint32(h[32:], uint32(len(r.Row)))
	binary.LittleEndian.PutUint32(h[36:], uint32(len(body)-len(r.Row)))
	binary.LittleEndian.PutUint64(h[40:], uint64(blobBytes))
	binary.LittleEndian.PutUint16(h[48:], uint16(len(r.Blobs)))
	h[50] = byte(r.Status)
	binary.LittleEndian.PutUint32(h[56:], crc32.Checksum(body, castagnoli))
	binary.LittleEndian.PutUint32(h[60:], crc32.Checksum(h[:60], castagnoli))
	return dst
}

// segment is an encoded segment under construction.
type segment struct {
	data  []byte
	count uint32
}

// newSegment starts a segment in buffer and overwrites it.
func newSegment(buffer []byte) *segment {
	return &segment{data: append(buffer[:0], make([]byte, headerBytes)...)}
}

// add appends a checked record and returns its offset.
func (s *segment) add(r *Record) int64 {
	offset := int64(len(s.data))
	s.data = r.appendTo(s.data)
	s.count++
	return offset
}

// seal writes the header and returns the complete file.
func (s *segment) seal() []byte {
	h := s.data[:headerBytes]
	copy(h, magic[:])
	binary.LittleEndian.PutUint32(h[8:], version)
	binary.LittleEndian.PutUint32(h[12:], s.count)
	binary.LittleEndian.PutUint64(h[16:], uint64(len(s.data)))
	binary.LittleEndian.PutUint32(h[28:], crc32.Checksum(h[:28], castagnoli))
	return s.data
}
