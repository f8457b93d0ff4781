package read

import (
	"bytes"
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

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/tabletest"
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
		var problem *document.Error
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
		path := textFile(t, "x.parquet", text)
		_, allocated, err := drain(path)
		var problem *document.Error
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
	path := tabletest.WriteFile(t, make([]row, 20), parquet.MaxRowsPerRowGroup(10))
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
