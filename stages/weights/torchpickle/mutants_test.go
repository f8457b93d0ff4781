package torchpickle

import (
	"archive/zip"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
	tt "latentbeam/stages/weights/torchpickle/torchtest"
)

// unpacked are the files of an archive by name, in order.
func unpacked(t *testing.T, content []byte) (names []string, files [][]byte) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, nil // the older format
	}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		names, files = append(names, f.Name), append(files, data)
	}
	return names, files
}

// codes are instructions that a mutant gets where another one was.
const codes = "().}]aebgchijlmnopqrstuNQRSXUBC\x80\x81\x85\x86\x87\x88\x89\x8a\x8c\x90\x93\x94\x95"

// damage changes a pickle in one to four places: an instruction, a length, a part that comes twice or goes.
func damage(random *rand.Rand, pickle []byte) []byte {
	for range 1 + random.IntN(4) {
		at := random.IntN(len(pickle))
		end := min(len(pickle), at+1+random.IntN(24))
		switch random.IntN(6) {
		case 0:
			pickle[at] = codes[random.IntN(len(codes))]
		case 1:
			pickle[at] ^= 1 << random.IntN(8)
		case 2:
			pickle[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[random.IntN(5)]
		case 3: // a part twice
			pickle = append(pickle[:end:end], pickle[at:]...)
		case 4: // a part less
			pickle = append(pickle[:at:at], pickle[end:]...)
		case 5: // a part of somewhere else
			from := random.IntN(len(pickle))
			copy(pickle[at:end], pickle[from:])
		}
		if len(pickle) == 0 {
			return []byte(".")
		}
	}
	return pickle
}

// TestPromiseP5: damaged pickles in archives whose checksums are right are refused or read as state dicts: nothing runs, no
// panic, no memory beyond measure. LATENTBEAM_MUTANTS says how many.
func TestPromiseP5(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.pth")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	type archive struct {
		names []string
		files [][]byte
	}
	var all []archive
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if names, files := unpacked(t, content); names != nil && len(content) < 1<<20 {
			all = append(all, archive{names, files})
		}
	}
	good := len(all)
	canary := filepath.Join(t.TempDir(), "canary")
	for _, h := range append(append(attacks(canary), bombs...), tensors...) {
		if pickle := tt.Pickle(h.value); len(pickle) < 1<<10 {
			all = append(all, archive{[]string{"archive/data.pkl", "archive/byteorder", "archive/version", "archive/data/0"},
				[][]byte{pickle, []byte("little"), []byte("3\n"), make([]byte, 48)}})
		}
	}
	mutants := testaid.Count(t, "LATENTBEAM_MUTANTS", 2000)
	random := rand.New(rand.NewPCG(5, uint64(mutants)))
	read, slowest := 0, time.Duration(0)
	for i := range mutants {
		a := all[i%good]
		if i%2 == 0 {
			a = all[good+i/2%(len(all)-good)]
		}
		files := append([][]byte(nil), a.files...)
		for k, name := range a.names {
			if strings.HasSuffix(name, "data.pkl") {
				files[k] = damage(random, bytes.Clone(files[k]))
			}
		}
		content := tt.Archive(t, "", a.names, files)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, err := New(content, "")
		slowest = max(slowest, time.Since(began))
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(bytesEach*len(content)+1<<20); got > limit {
			t.Errorf("mutant %d: %d bytes allocated for a file of %d", i, got, len(content))
		}
		if err == nil {
			read++
			accept(t, content)
		}
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("a pickle was executed")
	}
	if read == 0 || read > mutants*3/4 {
		t.Errorf("%d of %d are read: the mutations test nothing", read, mutants)
	}
	t.Logf("P5: %d pickles in archives with right checksums: %d read as state dicts, %d refused, nothing executed, slowest "+
		"%v", mutants, read,
		mutants-read, slowest)
}
