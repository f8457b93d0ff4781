package ledger

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// FuzzSegment: no bytes make the reader panic or allocate beyond the file's size, and what it
// accepts is exactly what the writer writes. With repair the checksums are made right first, so
// that the fuzzer gets behind them.
func FuzzSegment(f *testing.F) {
	good := sample()
	empty := newSegment(nil).seal()
	for _, seed := range [][]byte{nil, empty, good, good[:len(good)-1], good[:headerBytes+30]} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if repair {
			data = repaired(data)
		}
		recs, err := readAll(data)
		if err != nil {
			return
		}
		s := newSegment(nil)
		for i := range recs {
			s.add(&recs[i])
		}
		if again := s.seal(); !bytes.Equal(again, data) {
			t.Errorf("%d bytes are %d records that would be written as other %d bytes",
				len(data), len(recs), len(again))
		}
	})
}

// repaired makes size and checksums of a segment right as far as its lengths allow.
func repaired(data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) < headerBytes {
		return data
	}
	binary.LittleEndian.PutUint64(data[16:], uint64(len(data)))
	binary.LittleEndian.PutUint32(data[28:], crc32.Checksum(data[:28], castagnoli))
	for b := data[headerBytes:]; len(b) >= recordHeaderBytes; {
		row, table := uint64(binary.LittleEndian.Uint32(b[32:])), uint64(binary.LittleEndian.Uint32(b[36:]))
		blobs := binary.LittleEndian.Uint64(b[40:])
		if body := b[recordHeaderBytes:]; row+table <= uint64(len(body)) {
			binary.LittleEndian.PutUint32(b[56:], crc32.Checksum(body[:row+table], castagnoli))
		}
		binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
		if left := uint64(len(b)); blobs > left || recordHeaderBytes+row+table+blobs+recordAlign > left {
			break
		}
		end := recordHeaderBytes + row + table + blobs
		b = b[(end+recordAlign-1)/recordAlign*recordAlign:]
	}
	return data
}
