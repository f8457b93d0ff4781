package write_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// probe is a writer that measures the peak heap while a row group is written.
type probe struct{ peak uint64 }

func (p *probe) Write(b []byte) (int, error) {
	if len(b) > 1<<20 {
		p.look()
	}
	return len(b), nil
}

func (p *probe) look() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.peak = max(p.peak, m.HeapAlloc)
}

// TestMemoryOfARowGroup: the memory for a row group is limited even if all its texts differ. That is the worst case, because the library
// also holds them in a dictionary.
func TestMemoryOfARowGroup(t *testing.T) {
	const most = 96 << 20
	var before, p probe
	before.look()
	w := write.NewWriter[schemas.EmbeddingRow](&p, write.Options{})
	for i := range 3 * 8192 {
		text := make([]byte, 4096)
		rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), uint64(i)))).Read(text)
		if err := w.Write(schemas.EmbeddingRow{ID: "a", TextEmbeddingBytes: text, TextEmbeddingShape: []int64{8, 128}}); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			p.look()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.peak - before.peak; got > most || got < 16<<20 {
		t.Errorf("%d MiB were in use, want at most %d", got>>20, most>>20)
	} else {
		t.Logf("%d MiB", got>>20)
	}
}
