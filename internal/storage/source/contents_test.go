package source

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// TestContentsRemember: the first digest of each file is stored and found again, and each file needs little memory.
func TestContentsRemember(t *testing.T) {
	const files, most = 50_000, 110
	var c Contents
	key := func(i int) (k [16]byte) {
		binary.LittleEndian.PutUint64(k[3:], uint64(i)*0x9e3779b97f4a7c15)
		return k
	}
	digest := func(i int) string {
		return fmt.Sprintf("%x%s", sha256.Sum256(fmt.Append(nil, i)), []string{"", " ffmpeg 7.1"}[i%2])
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range files {
				if got, err := c.remember(key(i), digest(i+worker*files*(i%2))); err != nil || len(got) < 64 {
					t.Errorf("file %d: %q, %v", i, got, err)
				}
			}
		})
	}
	all.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapAlloc-before.HeapAlloc) / files; each > most {
		t.Errorf("%d bytes a file, want at most %d", each, most)
	}
	for i := range files {
		got, known := c.find(key(i))
		again, err := c.remember(key(i), digest(files*9))
		if !known || err != nil || again != got || i%2 == 0 && got != digest(i) {
			t.Fatalf("file %d: %q, then %q, %v", i, got, again, err)
		}
	}
	if _, known := c.find(key(files)); known {
		t.Error("an unknown file has a digest")
	}
	if _, err := c.remember(key(files), "no digest"); err == nil {
		t.Error("an invalid digest is stored")
	}
	runtime.KeepAlive(&c)
}
