package pages

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

func TestSchemas(t *testing.T) {
	group := func(children int32) format.SchemaElement {
		var e format.SchemaElement
		e.NumChildren.V, e.NumChildren.Valid = children, true
		return e
	}
	var leaf format.SchemaElement
	leaf.Type.Valid = true
	deep := []format.SchemaElement{}
	for range maxSchemaDepth + 1 {
		deep = append(deep, group(1))
	}
	for name, c := range map[string]struct {
		nodes  []format.SchemaElement
		leaves int
	}{
		"flat":      {[]format.SchemaElement{group(2), leaf, leaf}, 2},
		"nested":    {[]format.SchemaElement{group(2), group(1), leaf, leaf}, 2},
		"empty":     {nil, -1},
		"short":     {[]format.SchemaElement{group(2), leaf}, -1},
		"long":      {[]format.SchemaElement{group(1), leaf, leaf}, -1},
		"negative":  {[]format.SchemaElement{group(-1), leaf}, -1},
		"too many":  {[]format.SchemaElement{group(1 << 30), leaf}, -1},
		"untyped":   {[]format.SchemaElement{group(1), {}}, -1},
		"too deep":  {append(deep, leaf), -1},
		"many deep": {make([]format.SchemaElement, maxSchemaNodes+1), -1},
	} {
		got, err := checkSchema(c.nodes)
		if (err != nil) != (c.leaves < 0) || err == nil && got != c.leaves {
			t.Errorf("%s: %d leaves, %v", name, got, err)
		}
	}
}

// A page with more data than it claims is refused after the claimed size.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 32<<20)
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write(zeros); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	small, big := enc.EncodeAll(zeros[:100], nil), enc.EncodeAll(zeros, nil)
	bombs := map[string]struct {
		codec format.CompressionCodec
		data  []byte
	}{
		"gzip":        {format.Gzip, gz.Bytes()},
		"zstd":        {format.Zstd, big},
		"two frames":  {format.Zstd, append(small, big...)},
		"snappy":      {format.Snappy, snappy.Encode(nil, zeros)},
		"snappy lies": {format.Snappy, []byte{100, 0}},
		"plain":       {format.Uncompressed, zeros[:200]},
		"lz4":         {format.Lz4Raw, zeros[:200]},
		"garbage":     {format.Zstd, zeros[:200]},
	}
	for name, b := range bombs {
		var u unpacker
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := u.open(bytes.NewReader(b.data), b.codec, 0, len(b.data), 100)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; err == nil || allocated > 16<<20 {
			t.Errorf("%s: %v, %d bytes allocated", name, err, allocated)
		}
		u.close()
	}
	var u unpacker
	defer u.close()
	if d, err := u.open(bytes.NewReader(small), format.Zstd, 0, len(small), 100); err != nil || d.size != 100 {
		t.Errorf("an honest page: %v", err)
	}
}

func TestRunsAndDeltas(t *testing.T) {
	uvarints := func(v ...uint64) []byte {
		var b []byte
		for _, n := range v {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	long := uvarints(1 << 32) // a run of 2^31
	for name, c := range map[string]struct {
		err  error
		fine bool
	}{
		"a run of 100":       {checkRuns(append(uvarints(200), 1), 1, 100), true},
		"a run too long":     {checkRuns(append(long, 1), 1, 100), false},
		"many runs":          {checkRuns(bytes.Repeat(append(uvarints(2000), 1), 1000), 1, 1000), false},
		"packed":             {checkRuns([]byte{3, 0xff}, 1, 8), true},
		"packed, short":      {checkRuns([]byte{5, 0xff}, 1, 16), false},
		"packed, no width":   {checkRuns(bytes.Repeat([]byte{0xff, 0x7f}, 100), 0, 16), false},
		"64 bits":            {checkRuns([]byte{3, 0xff}, 64, 8), false},
		"cut header":         {checkRuns([]byte{0x80}, 1, 8), false},
		"delta, one value":   {second(checkDelta(uvarints(128, 4, 1, 0), 32, 1)), true},
		"delta, 2^31":        {second(checkDelta(uvarints(128, 4, 1<<31, 0), 32, 100)), false},
		"delta, no blocks":   {second(checkDelta(uvarints(128, 0, 2, 0), 32, 2)), false},
		"delta, huge block":  {second(checkDelta(uvarints(1<<40, 1, 2, 0), 32, 2)), false},
		"delta, odd block":   {second(checkDelta(uvarints(100, 4, 2, 0), 32, 2)), false},
		"delta, wide":        {second(checkDelta(append(uvarints(128, 4, 2, 0, 0), 33, 0, 0, 0), 32, 2)), false},
		"delta, cut":         {second(checkDelta(append(uvarints(128, 4, 2, 0, 0), 8, 0, 0, 0), 32, 2)), false},
		"a run too short":    {checkRuns(append(uvarints(200), 1), 1, 101), false},
		"delta, too few":     {second(checkDelta(uvarints(128, 4, 1, 0), 32, 2)), false},
		"numbers":            {checkPlain(&pageData{memory: make([]byte, 16), size: 16}, parquet.Int64Type, 2), true},
		"numbers, too few":   {checkPlain(&pageData{memory: make([]byte, 16), size: 16}, parquet.Int64Type, 3), false},
		"texts":              {checkTexts(&pageData{memory: []byte("\x01\x00\x00\x00a"), size: 5}, 1), true},
		"texts, too few":     {checkTexts(&pageData{memory: []byte("\x01\x00\x00\x00a"), size: 5}, 2), false},
		"texts, too many":    {checkTexts(&pageData{memory: []byte("\x01\x00\x00\x00a"), size: 5}, 0), false},
		"texts, cut":         {checkTexts(&pageData{memory: []byte("\x02\x00\x00\x00a"), size: 5}, 1), false},
		"delta, zero widths": {second(checkDelta(append(uvarints(128, 4, 100, 0, 0), 0, 0, 0, 0), 32, 100)), true},
	} {
		if (c.err == nil) != c.fine {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	// 128 texts that each repeat a mebibyte of the one before.
	prefixes := append(uvarints(128, 1, 128, 2<<20, 0), 0)
	suffixes := append(uvarints(128, 1, 128, 0, 0), 0)
	if err := checkPrefixes(append(prefixes, suffixes...), 128); err == nil || !strings.Contains(err.Error(), "written out") {
		t.Errorf("a bomb of prefixes: %v", err)
	}
}

func second(_ []byte, err error) error { return err }

func TestBooleanRuns(t *testing.T) {
	for _, width := range []int{1, 2, 3, 7, 8} {
		want := make([]byte, 16)
		var packed uint64
		runs := []byte{3}
		for i := range 8 {
			want[i] = byte(i*5+1) & (1<<width - 1)
			packed |= uint64(want[i]) << (i * width)
			want[8+i] = 1
		}
		for i := range width {
			runs = append(runs, byte(packed>>(8*i)))
		}
		runs = append(runs, 16, 1)
		got := make([]byte, 16)
		if n := expandRuns(got, runs, width); n != 16 || !bytes.Equal(got, want) {
			t.Errorf("width %d: %v, want %v", width, got, want)
		}
	}
}
