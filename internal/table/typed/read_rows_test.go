package typed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// save writes rows as the program does.
func save[T schemas.Row](t *testing.T, rows []T, opts write.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := write.Write(f, tabletest.Seq(rows), opts); err != nil {
		t.Fatal(err)
	}
	return path
}

func collect[T schemas.Row](t *testing.T, path string, tensors bool) []T {
	t.Helper()
	var out []T
	for row, err := range Read[T](path, tensors) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

func TestReadRows(t *testing.T) {
	want := tabletest.Latents(9, 100_000)
	path := save(t, want, write.Options{RowGroupBytes: 300_000})
	if got := collect[schemas.LatentRow](t, path, true); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %.300v\nwant %.300v", got, want)
	}
	for i := range want {
		want[i].VAELatentBytes, want[i].TextEmbeddingBytes = nil, nil
	}
	if got := collect[schemas.LatentRow](t, path, false); !reflect.DeepEqual(got, want) {
		t.Errorf("without tensors: got %+v", got[0])
	}
	seed, guidance := int64(7), 0.0
	embeddings := []schemas.EmbeddingRow{
		{ID: "a", Caption: "x", TextEmbeddingBytes: []byte{1, 2, 3, 4}, TextEmbeddingShape: []int64{1, 1},
			TextEmbeddingDType: "float32", NegativeEmbeddingBytes: []byte{}, NegativeEmbeddingShape: []int64{},
			LaterEmbeddingBytes: []byte{5, 6}, LaterEmbeddingClips: []int64{2}, LaterEmbeddingLengths: []int64{1},
			Seed: &seed, GuidanceScale: &guidance, Height: 64, FPS: 23.976},
		{ID: "b", TextEmbeddingBytes: []byte{}, TextEmbeddingShape: []int64{}, NegativeEmbeddingBytes: []byte{},
			NegativeEmbeddingShape: []int64{}, LaterEmbeddingBytes: []byte{}, LaterEmbeddingClips: []int64{},
			LaterEmbeddingLengths: []int64{}},
	}
	if got := collect[schemas.EmbeddingRow](t, save(t, embeddings, write.Options{}), true); !reflect.DeepEqual(got,
		embeddings) {
		t.Errorf("got  %+v\nwant %+v", got, embeddings)
	}
	videos := []schemas.VideoRow{{ID: "a", Prompt: "日本", Seed: 1 << 62, FPS: 8}}
	if got := collect[schemas.VideoRow](t, save(t, videos, write.Options{}), true); !reflect.DeepEqual(got, videos) {
		t.Errorf("got %+v", got)
	}
}

// The file was written by pyarrow with FastVideo's schema: every column nullable, zstd, two row groups.
func TestReadRowsOfFastVideo(t *testing.T) {
	got := collect[schemas.LatentRow](t, "testdata/fastvideo/t2v.parquet", true)
	if len(got) != 3 {
		t.Fatalf("%d rows", len(got))
	}
	for i, r := range got {
		var bytes []byte
		for j := range 16 {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(float32(i+j)))
		}
		want := schemas.LatentRow{ID: fmt.Sprintf("clip_%d", i), VAELatentBytes: bytes,
			VAELatentShape: []int64{2, 2, 2, 2}, VAELatentDType: "float32", TextEmbeddingBytes: []byte{},
			TextEmbeddingShape: []int64{}, FileName: fmt.Sprintf("clip_%d.mp4", i),
			Caption: fmt.Sprintf("caption %d", i), MediaType: "video", Width: 16, Height: 16, NumFrames: 2,
			DurationSec: 0.25, FPS: 8}
		switch i {
		case 0:
			want.TextEmbeddingBytes = r.TextEmbeddingBytes
			want.TextEmbeddingShape, want.TextEmbeddingDType = []int64{3, 2}, "float32"
			if len(r.TextEmbeddingBytes) != 3*2*4 {
				t.Errorf("a text embedding of %d bytes", len(r.TextEmbeddingBytes))
			}
		case 2:
			want.Caption = "" // null
		}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("row %d\ngot  %+v\nwant %+v", i, r, want)
		}
	}
}

// A table of FastVideo has its own columns only, with other integer widths and null where there is nothing.
func TestReadRowsOfOtherPrograms(t *testing.T) {
	type row struct {
		ID    string  `parquet:"id"`
		Bytes []byte  `parquet:"vae_latent_bytes,zstd"`
		Shape []int64 `parquet:"vae_latent_shape,list"`
		DType string  `parquet:"vae_latent_dtype"`
		Text  []byte  `parquet:"text_embedding_bytes,optional"`
		Width int32   `parquet:"width"`
		FPS   float32 `parquet:"fps"`
		Other string  `parquet:"other"`
	}
	path := tabletest.WriteFile(t, []row{{"a", []byte{1, 2}, []int64{1, 2}, "float32", nil, 64, 23.976, "x"},
		{"b", []byte{3}, nil, "float32", []byte{}, 32, 8, "x"}})
	want := []schemas.LatentRow{
		{ID: "a", VAELatentBytes: []byte{1, 2}, VAELatentShape: []int64{1, 2}, VAELatentDType: "float32", Width: 64,
			FPS: 23.976},
		{ID: "b", VAELatentBytes: []byte{3}, VAELatentShape: []int64{}, VAELatentDType: "float32", Width: 32, FPS: 8,
			TextEmbeddingBytes: []byte{}},
	}
	if got := collect[schemas.LatentRow](t, path, true); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, tensors := range []bool{true, false} {
		for _, err := range Read[schemas.EmbeddingRow](path, tensors) {
			var problem *document.Error
			if !errors.As(err, &problem) || !strings.Contains(err.Error(), `no column "text_embedding_shape"`) {
				t.Errorf("a table of latents as one of embeddings: %v", err)
			}
		}
	}
	type wrong struct {
		Bytes [][]byte `parquet:"vae_latent_bytes,list"`
		Shape string   `parquet:"vae_latent_shape"`
		DType int64    `parquet:"vae_latent_dtype"`
	}
	for _, err := range Read[schemas.LatentRow](tabletest.WriteFile(t, []wrong{{}}), true) {
		if err == nil {
			t.Error("columns of the wrong types went unnoticed")
		}
	}
}

func TestReadRowsHoldsOneTensorAtATime(t *testing.T) {
	const rows, blob = 64, 1 << 20
	path := save(t, tabletest.Latents(rows, blob), write.Options{RowGroupBytes: 16 << 20})
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	for _, err := range Read[schemas.LatentRow](path, true) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%16 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 8*blob {
				t.Errorf("after %d rows the heap grew by %d bytes", n, grown)
			}
		}
	}
	runtime.ReadMemStats(&before)
	for range Read[schemas.LatentRow](path, false) {
		n--
	}
	runtime.ReadMemStats(&now)
	if n != 0 || now.TotalAlloc-before.TotalAlloc > 4<<20 {
		t.Errorf("%d rows missing; without tensors %d bytes were allocated", n, now.TotalAlloc-before.TotalAlloc)
	}
}

func TestReadRowsOfDamagedFiles(t *testing.T) {
	for _, name := range []string{"footer-bomb.parquet", "lz4-loop.parquet"} {
		n := 0
		for _, err := range Read[schemas.LatentRow](filepath.Join("../read/testdata/malformed", name), true) {
			if n++; err == nil {
				t.Errorf("%s can be read", name)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d answers", name, n)
		}
	}
	for _, err := range Read[schemas.LatentRow]("no such file", true) {
		if err == nil {
			t.Error("a missing file can be read")
		}
	}
	path := save(t, tabletest.Latents(4, 4096), write.Options{RowGroupBytes: 1})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(strings.NewReader(string(data)), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	at := f.Metadata().RowGroups[2].Columns[1].MetaData.DataPageOffset
	copy(data[at:], "\xff\xff\xff\xff\xff\xff\xff\xff")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, err = range Read[schemas.LatentRow](path, true) {
		if err == nil {
			rows++
		}
	}
	if rows != 2 || err == nil || !strings.Contains(err.Error(), `column "vae_latent_bytes" of row group 2`) {
		t.Errorf("%d rows, %v", rows, err)
	}
}
