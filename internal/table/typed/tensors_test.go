package typed

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// TestTensors reads tensors of every size in order and in none, over pages and row groups.
func TestTensors(t *testing.T) {
	const n = 200
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []schemas.LatentRow
	for i := range n {
		data := make([]byte, []int{0, 64, 5_000, 300_000}[i%4])
		for k := range data {
			data[k] = byte(rng.Uint32())
		}
		rows = append(rows, schemas.LatentRow{Key: string(rune('a' + i)), VAELatentBytes: data})
	}
	path := save(t, rows, write.Options{RowGroupBytes: 4_000_000})
	tensors, err := openTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tensors.Close()
	i := 0
	for key, err := range tensors.Keys() {
		if err != nil || key != rows[i].Key {
			t.Fatalf("key %d is %q, %v", i, key, err)
		}
		i++
	}
	if i != n || tensors.Rows() != n || len(tensors.ends) < 3 {
		t.Fatalf("%d keys, %d rows, %d groups", i, tensors.Rows(), len(tensors.ends))
	}
	order := rng.Perm(n)
	for i := range n {
		order = append(order, i)
	}
	for _, i := range order {
		got, err := tensors.Read("vae_latent_bytes", int64(i))
		if err != nil || !bytes.Equal(got, rows[i].VAELatentBytes) {
			t.Fatalf("row %d: %d bytes, %v; want %d", i, len(got), err, len(rows[i].VAELatentBytes))
		}
	}
	for _, row := range []int64{-1, n} {
		if _, err := tensors.Read("vae_latent_bytes", row); err == nil {
			t.Errorf("row %d is there", row)
		}
	}
	if _, err := tensors.Read("no_such_column", 0); err == nil {
		t.Error("a column that is not there")
	}
}

// TestTensorsOfDamagedFiles: an error, never a panic.
func TestTensorsOfDamagedFiles(t *testing.T) {
	whole, err := os.ReadFile(save(t, tabletest.Latents(9, 1000), write.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openTensors(filepath.Join(t.TempDir(), "none.parquet")); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		data := bytes.Clone(whole)
		data[rng.IntN(len(data))] ^= byte(1 + rng.IntN(255))
		path := filepath.Join(t.TempDir(), "t.parquet")
		if err := os.WriteFile(path, data[:len(data)-rng.IntN(2)*rng.IntN(len(data))], 0o644); err != nil {
			t.Fatal(err)
		}
		tensors, err := openTensors(path)
		if err != nil {
			continue
		}
		for range tensors.Keys() {
		}
		for row := range tensors.Rows() {
			_, _ = tensors.Read("vae_latent_bytes", row) // the digest of a tensor tells whether it is right
		}
		tensors.Close()
	}
}

// memory is a file in memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// TestTensorsOfClaims writes a huge number at every place of a table: what it says of itself does not end the process.
func TestTensorsOfClaims(t *testing.T) {
	whole, err := os.ReadFile(save(t, tabletest.Latents(3, 100), write.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	for at := 4; at < len(whole); at += 3 {
		data := bytes.Clone(whole)
		copy(data[at:], "\xfe\xff\xff\xff\x01")
		runtime.ReadMemStats(&before)
		_, _ = Metadata("t.parquet", memory{bytes.NewReader(data)})
		if tensors, err := OpenTensors("t.parquet", memory{bytes.NewReader(data)}); err == nil {
			for row := range tensors.Rows() {
				_, _ = tensors.Read("vae_latent_bytes", row)
			}
			_ = tensors.Close()
		}
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
			t.Errorf("a claim at byte %d allocates %d bytes", at, allocated)
		}
	}
}

// openTensors opens a table on disk.
func openTensors(path string) (*Tensors, error) {
	file, err := source.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	return OpenTensors(path, file)
}

// TestTensorsOfADamagedPage: a damaged page costs its rows alone, whatever was read before.
func TestTensorsOfADamagedPage(t *testing.T) {
	const n, damaged = 8, 3
	rng := rand.New(rand.NewPCG(3, 4))
	var rows []schemas.LatentRow
	for i := range n {
		data := make([]byte, 300_000) // more than a page
		for k := range data {
			data[k] = byte(rng.Uint32())
		}
		rows = append(rows, schemas.LatentRow{Key: string(rune('a' + i)), VAELatentBytes: data})
	}
	path := save(t, rows, write.Options{})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file[bytes.Index(file, rows[damaged].VAELatentBytes)+1000] ^= 4
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	tensors, err := openTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tensors.Close()
	for _, i := range []int64{0, 3, 4, 3, 2, 3, 7, 5, 6, 1} {
		data, err := tensors.Read("vae_latent_bytes", i)
		if whole := err == nil && bytes.Equal(data, rows[i].VAELatentBytes); whole == (i == damaged) {
			t.Errorf("row %d: whole %v, %v", i, whole, err)
		}
	}
}
