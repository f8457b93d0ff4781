package ledger

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCursor reads records with blobs of sizes from 0 to many read-ahead windows with one cursor: in order, backwards, in random order,
// and with absent keys between them.
func TestCursor(t *testing.T) {
	const n = 300
	var all []Record
	for i := range n {
		r := recordOf(i, 0, Done)
		r.Blobs[0].Data = bytes.Repeat([]byte{byte(i), byte(i >> 8)}, []int{0, 5, 2_000, 40_000, 200_000}[i%5])
		all = append(all, r)
	}
	l := openLedger(t, openDir(t))
	for batch := range slices.Chunk(all, 40) {
		must(t, l.Commit(t.Context(), batch))
	}
	c := l.Cursor()
	defer c.Close()
	orders := [][]int{nil, nil, rand.New(rand.NewPCG(1, 2)).Perm(n)}
	for i := range n {
		orders[0], orders[1] = append(orders[0], i), append(orders[1], n-1-i)
	}
	for _, order := range orders {
		for _, i := range order {
			if status, err := c.Status(keyOf(n + i)); status != Absent || err != nil {
				t.Fatalf("absent key: %v, %v", status, err)
			}
			if _, err := c.Blob("latents"); err == nil {
				t.Fatal("a key without a record has a blob")
			}
			checkCursor(t, c, all[i])
		}
	}
	if rec, err := c.Find(keyOf(n)); rec.Status != Absent || err != nil {
		t.Errorf("absent key: %+v, %v", rec, err)
	}
}

// BenchmarkFind compares a cursor with Lookup and Read, in the order of writing.
func BenchmarkFind(b *testing.B) {
	const n = 100_000
	l := openLedger(b, openDir(b))
	fill(b, l, n, 20_000)
	b.Run("cursor", func(b *testing.B) {
		c := l.Cursor()
		defer c.Close()
		for i := range b.N {
			if _, err := c.Find(numbered(i % n)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lookup", func(b *testing.B) {
		for i := range b.N {
			ref, _, err := l.Lookup(numbered(i % n))
			if err == nil {
				_, err = l.Read(ref)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
