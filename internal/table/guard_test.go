package table

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"latentbeam/internal/config"
)

// drain reads a table to its end and says how many bytes were allocated on the way.
func drain(path string) (rows int, allocated uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := Open([]string{path}, Options{})
	if err == nil {
		for rec, rowErr := range p.All() {
			if err = rowErr; err == nil && rec.Row.Source != "" {
				rows++
			}
		}
		err = errors.Join(err, p.Close())
	}
	runtime.ReadMemStats(&after)
	return rows, after.TotalAlloc - before.TotalAlloc, err
}

// These two end the process that reads them without the guards.
func TestKillerFiles(t *testing.T) {
	for name, want := range map[string]string{"footer-bomb.parquet": "its footer claims",
		"lz4-loop.parquet": "LZ4_RAW"} {
		path := filepath.Join("testdata/malformed", name)
		_, allocated, err := drain(path)
		var problem *config.Error
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), want) || problem.Problems[0].Fix == "" {
			t.Errorf("%s: %v, want %q and a fix", name, err, want)
		}
		if allocated > 8<<20 {
			t.Errorf("%s: %d bytes allocated", name, allocated)
		}
	}
}

func TestFooters(t *testing.T) {
	file := func(footer string) string {
		return "PAR1" + footer + string(binary.LittleEndian.AppendUint32(nil, uint32(len(footer)))) + "PAR1"
	}
	for name, text := range map[string]string{
		"empty":               "",
		"short":               "PAR1PAR1",
		"no parquet":          "a,b,c\n1,2,3\n" + strings.Repeat("x", 100),
		"encrypted":           "PARE" + strings.Repeat("x", 20) + "PARE",
		"no footer":           file(""),
		"list of 2^31 nodes":  file("\x15\x02\x19\xfc\xff\xff\xff\xff\x07\x00"),
		"text of 2^31 bytes":  file("\x15\x02\x68\xff\xff\xff\xff\x07\x00"),
		"text of 2^64 bytes":  file("\x15\x02\x68" + strings.Repeat("\xff", 9) + "\x01\x00"),
		"list of 2^64":        file("\x15\x02\x19\xfc" + strings.Repeat("\xff", 9) + "\x01\x00"),
		"map of 2^31 entries": file("\x15\x02\x1b\xff\xff\xff\xff\x07\x88\x00"),
		"endless depth":       file(strings.Repeat("\x1c", 1<<20)),
		"deep lists":          file("\x19" + strings.Repeat("\x19", 1<<20)),
		"a million structs":   file("\x15\x02\x19\xfc\x80\x80\x40" + strings.Repeat("\x00", 2<<20)),
		"long number":         file("\x15" + strings.Repeat("\xff", 20)),
		"unknown type":        file("\x1e"),
	} {
		path := write(t, "x.parquet", text)
		_, allocated, err := drain(path)
		var problem *config.Error
		if !errors.As(err, &problem) || allocated > 128<<20 {
			t.Errorf("%s: %v, %d bytes allocated", name, err, allocated)
		}
	}
}

// The library takes the codec of a column's first chunk for all of them, so a later chunk with another one would
// be unpacked unchecked.
func TestCodecThatChanges(t *testing.T) {
	type row struct {
		Prompt string `parquet:"prompt,snappy"`
	}
	path := writeParquet(t, make([]row, 20), parquet.MaxRowsPerRowGroup(10))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(f.RowGroups()) != 2 {
		t.Fatal(err)
	}
	meta := f.Metadata()
	meta.RowGroups[1].Columns[0].MetaData.Codec = format.Uncompressed
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		t.Fatal(err)
	}
	start := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	data = append(data[:start], footer...)
	data = append(binary.LittleEndian.AppendUint32(data, uint32(len(footer))), "PAR1"...)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := drain(path); err == nil || !strings.Contains(err.Error(), "in another way than the first") {
		t.Errorf("%v", err)
	}
}

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

// A page that holds more than it claims is refused after what it claims, whatever it would become.
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

// TestMutants: damaged files end in rows or an error (P6): no death, no panic, no allocation beyond all measure.
func TestMutants(t *testing.T) {
	mutants := 3000
	if n, err := strconv.Atoi(os.Getenv("LATENTBEAM_MUTANTS")); err == nil {
		mutants = n // a night's worth
	}
	var seeds [][]byte
	files, _ := filepath.Glob("testdata/foreign/*.parquet")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, data)
	}
	if len(seeds) == 0 {
		t.Fatal("no files to damage")
	}
	path := filepath.Join(t.TempDir(), "m.parquet")
	rng := rand.New(rand.NewPCG(1, uint64(mutants)))
	outcomes := map[bool]int{}
	slowest := time.Duration(0)
	for i := range mutants {
		data := mutate(rng, bytes.Clone(seeds[i%len(seeds)]))
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, allocated, err := drain(path)
		took := time.Since(start)
		if took > 10*time.Second { // or another program had the machine, which the second time does not show
			start = time.Now()
			_, _, _ = drain(path)
			took = min(took, time.Since(start))
		}
		slowest = max(slowest, took)
		if allocated > 256<<20 {
			t.Errorf("mutant %d: %d bytes allocated", i, allocated)
		}
		outcomes[err == nil]++
	}
	if outcomes[true] == 0 || outcomes[false] < mutants/10 {
		t.Error("the mutations test nothing")
	}
	if slowest > 10*time.Second {
		t.Errorf("a damaged file takes %v", slowest)
	}
	t.Logf("P6: %d damaged parquet files: %d read, %d refused, no death, slowest %v", mutants, outcomes[true], outcomes[false], slowest)
}

// mutate damages a file in one to four places: half of them in the footer, where the claims are.
func mutate(rng *rand.Rand, data []byte) []byte {
	footer := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	for range 1 + rng.IntN(4) {
		at := 4 + rng.IntN(len(data)-4)
		if rng.IntN(2) == 0 && footer < len(data) {
			at = footer + rng.IntN(len(data)-footer)
		}
		switch rng.IntN(6) {
		case 0:
			data[at] ^= 1 << rng.IntN(8)
		case 1:
			data[at] = byte(rng.IntN(256))
		case 2:
			data[at] = []byte{0, 0xff, 0x7f, 0x80}[rng.IntN(4)]
		case 3:
			for j := at; j < min(at+5, len(data)); j++ {
				data[j] = 0xff
			}
		case 4:
			copy(data[at:], data[4+rng.IntN(len(data)-4):])
		case 5:
			if len(data) > 64 {
				cut := rng.IntN(16)
				data = append(data[:min(at, len(data)-8)], data[min(at+cut, len(data)-8):]...)
			}
		}
		footer = min(footer, len(data)-1)
	}
	return data
}
