package same

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// addLedger adds the records of a ledger segment by their keys: the status, the fields of the row and the digests of the blobs. The
// layout is described in doc.go of internal/storage/ledger. The last record of a key counts. The division of records into segments and
// the order of blobs are not compared, because they depend on timing.
func addLedger(t *testing.T, now state, place, name string, data []byte) {
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
		fields := []string{fmt.Sprintf("status=%d", h[50])} // 1 done, 2 failed
		for _, f := range flatten(t, name, h[head:head+row]) {
			fields = append(fields, f.name+"="+compact(f.value))
		}
		fields = append(fields, ledgerBlobs(h[head+row:head+row+table], h[head+row+table:size])...)
		now[item{"ledger", place, fmt.Sprintf("%x", h[:8])}] = strings.Join(fields, " ")
		at += (size + 7) / 8 * 8
	}
}

// ledgerBlobs returns the names and digests of a record's blobs, sorted.
func ledgerBlobs(table, data []byte) (blobs []string) {
	for len(table) > 0 {
		n := 2 + int(binary.LittleEndian.Uint16(table))
		size := binary.LittleEndian.Uint64(table[n:])
		blobs = append(blobs, fmt.Sprintf("blob.%s=%s", table[2:n], digest(data[:size])))
		table, data = table[n+12:], data[size:]
	}
	slices.Sort(blobs)
	return blobs
}

// compact returns a value with underscores instead of spaces.
func compact(value string) string { return strings.ReplaceAll(value, " ", "_") }

// addTensors adds the tensors of a safetensors file: type, shape and digest.
func addTensors(t *testing.T, now state, name string, data []byte) {
	t.Helper()
	var header map[string]json.RawMessage
	if len(data) < 8 {
		t.Fatalf("%s: %d bytes are no safetensors file", name, len(data))
	}
	end := 8 + binary.LittleEndian.Uint64(data)
	if err := json.Unmarshal(data[8:end], &header); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for tensor, text := range header {
		var e struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}
		if tensor == "__metadata__" {
			now[item{"tensors", name, tensor}] = short(string(text))
			continue
		}
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatalf("%s: %s: %v", name, tensor, err)
		}
		values := data[end:][e.Offsets[0]:e.Offsets[1]]
		now[item{"tensors", name, tensor}] = fmt.Sprintf("%s%v %s", e.DType, e.Shape, digest(values))
	}
}

// addMembers adds the files of a tar archive.
func addMembers(t *testing.T, now state, name string, data []byte) {
	t.Helper()
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(archive)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now[item{"archive", name, short(h.Name)}] = digest(content)
	}
}
