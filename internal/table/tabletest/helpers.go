package tabletest

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/schemas"
)

// Seq yields the rows without an error.
func Seq[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Latents returns n rows, each with a latent of blob random bytes.
func Latents(n, blob int) []schemas.LatentRow {
	rows := make([]schemas.LatentRow, n)
	for i := range rows {
		data := make([]byte, blob)
		for j := 0; j < blob; j += sha256.Size { // incompressible
			sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", i, j))
			copy(data[j:], sum[:])
		}
		rows[i] = schemas.LatentRow{ID: fmt.Sprintf("row-%03d", i), VAELatentBytes: data,
			VAELatentShape: []int64{4, 16, 8, int64(blob / 2048)}, VAELatentDType: "float32",
			TextEmbeddingShape: []int64{}, TextEmbeddingBytes: []byte{},
			Caption: fmt.Sprintf("a red circle, number %d", i), MediaType: "video", Width: 64, Height: 64,
			NumFrames: 16, VideoFrames: 16, FPS: 8, Seed: int64(i), GuidanceScale: 4, LatentScale: 0.18215,
			Extra: `{"n":1}`}
	}
	return rows
}

// WriteFile writes rows of any struct, as another program would.
func WriteFile[T any](t testing.TB, rows []T, opts ...parquet.WriterOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewGenericWriter[T](f, opts...)
	for i := range rows { // one by one, or the writer would make larger pages than configured
		if _, err := w.Write(rows[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
