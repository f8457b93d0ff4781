package same

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// ledgerRecords adds the records of a ledger segment as digests by their key, by the layout in internal/storage/ledger/doc.go.
// A later record of a key counts. How records are spread over segments, and the order of a record's blobs, depend on
// time and chance.
func ledgerRecords(t *testing.T, name string, data []byte, records map[string]string) {
	t.Helper()
	const head = 64
	if len(data) < 32 || string(data[:8]) != "LBLEDGER" {
		t.Fatalf("%s is no ledger segment", name)
	}
	for at := 32; at < len(data); {
		h := data[at:]
		if len(h) < head {
			t.Fatalf("%s: %d bytes are left over", name, len(h))
		}
		row, table := int(binary.LittleEndian.Uint32(h[32:])), int(binary.LittleEndian.Uint32(h[36:]))
		size := head + row + table + int(binary.LittleEndian.Uint64(h[40:]))
		if size > len(h) {
			t.Fatalf("%s: a record is longer than the file", name)
		}
		blobs := ledgerBlobs(h[head+row:head+row+table], h[head+row+table:size])
		records[string(h[:32])] = fmt.Sprintf("%x status %d %s %v\n", h[:32], h[50], digest(h[head:head+row]), blobs)
		at += (size + 7) / 8 * 8
	}
}

// ledgerBlobs returns the names and digests of a record's blobs, sorted. A table too short ends the test.
func ledgerBlobs(table, data []byte) (blobs []string) {
	for len(table) > 0 {
		n := 2 + int(binary.LittleEndian.Uint16(table))
		size := binary.LittleEndian.Uint64(table[n:])
		blobs = append(blobs, fmt.Sprintf("%s %s", table[2:n], digest(data[:size])))
		table, data = table[n+12:], data[size:]
	}
	slices.Sort(blobs)
	return blobs
}
