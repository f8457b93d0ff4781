package ledger

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"latentbeam/schemas/fault"
)

// FuzzSegment: no bytes make the reader panic or allocate beyond the file's size, and what it
// accepts is exactly what the writer writes. What it salvages of other bytes is what the writer writes for
// those records. With repair the checksums are made right first, so that the fuzzer gets behind them.
func FuzzSegment(f *testing.F) {
	good := sample()
	empty := newSegment(nil).seal()
	wounded := bytes.Clone(good)
	clear(wounded[headerBytes : headerBytes+20])
	for _, seed := range [][]byte{nil, empty, good, good[:len(good)-1], good[:headerBytes+30], wounded} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if repair {
			data = repaired(data)
		}
		recs, err := readAll(data)
		if err != nil {
			salvaged(t, data)
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

// salvaged checks what is found in damaged bytes.
func salvaged(t *testing.T, data []byte) {
	r := newReader()
	r.reset("test.seg", bytes.NewReader(data), int64(len(data)))
	end := int64(0)
	d, err := r.salvage(&DamagedError{}, func(offset int64, _ header) {
		if offset < end {
			t.Errorf("a record at %d within one that ends at %d", offset, end)
		}
		var rec Record
		err := r.visit(offset, func(offset int64, h header, body []byte) error {
			got, entries, err := r.record(offset, h, body)
			for i := 0; err == nil && i < len(entries); i++ {
				got.Blobs[i].Data, err = r.blob(entries[i])
			}
			rec = got
			return err
		})
		if err != nil {
			t.Errorf("a record at %d is not sound: %v", offset, err)
			return
		}
		n := int64(recordHeaderBytes + len(rec.Row)) // without the padding, which may be anything
		for _, b := range rec.Blobs {
			n += int64(blobEntryBytes+len(b.Name)) + b.Size
		}
		if !bytes.Equal(data[offset:offset+n], rec.appendTo(nil)[:n]) {
			t.Errorf("the record at %d would be written otherwise", offset)
		}
		end = offset + n
	})
	if err != nil && fault.ExitCode(err) != fault.ExitUsage { // a newer version
		t.Fatal(err)
	}
	if d != nil && (d.Bytes < 0 || d.Bytes > int64(len(data)) || d.Saved != len(d.offsets)) {
		t.Errorf("%+v of %d bytes", d, len(data))
	}
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
