package write_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

func TestWriteReadsBack(t *testing.T) {
	want := tabletest.Latents(7, 4096)
	var b bytes.Buffer
	n, err := write.Write(&b, tabletest.Seq(want), write.Options{Version: "1.2.3", Metadata: map[string]string{"job": "x"}})
	if err != nil || n != 7 {
		t.Fatal(n, err)
	}
	got, err := parquet.Read[schemas.LatentRow](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got[0], want[0])
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{write.MetadataSchema: "latents/v1", write.MetadataVersion: "1.2.3", "job": "x"} {
		if got, _ := f.Lookup(key); got != value {
			t.Errorf("metadata %s = %q, want %q", key, got, value)
		}
	}
}

// Statistics of tensor columns multiply a file's size; nothing but its size shows it.
func TestFileIsAsLargeAsItsTensors(t *testing.T) {
	const rows, blob = 24, 512 << 10
	var b bytes.Buffer
	if _, err := write.Write(&b, tabletest.Seq(tabletest.Latents(rows, blob)), write.Options{}); err != nil {
		t.Fatal(err)
	}
	if over := b.Len() - rows*blob; over < 0 || over > rows*2048+16384 {
		t.Errorf("%d bytes for %d bytes of tensors", b.Len(), rows*blob)
	}
}

// TestTextIsStoredOnce: rows have one negative prompt as a rule, and those without a caption one text. Its embedding stands
// once in a row group.
func TestTextIsStoredOnce(t *testing.T) {
	const blob = 512 << 10
	tensors := tabletest.Latents(24, blob)
	for texts, most := range map[int]int{1: blob + 24*8192, 24: 24 * (blob + 8192)} {
		var latents []schemas.LatentRow
		var embeddings []schemas.EmbeddingRow
		for i, l := range tensors {
			text := tensors[i%texts].VAELatentBytes
			latents = append(latents, schemas.LatentRow{ID: l.ID, VAELatentBytes: l.VAELatentBytes[:4096], TextEmbeddingBytes: text})
			embeddings = append(embeddings, schemas.EmbeddingRow{ID: l.ID, TextEmbeddingBytes: text})
		}
		var a, b bytes.Buffer
		_, err := write.Write(&a, tabletest.Seq(latents), write.Options{})
		if err == nil {
			_, err = write.Write(&b, tabletest.Seq(embeddings), write.Options{})
		}
		if err != nil || a.Len() > most || b.Len() > most {
			t.Errorf("%d texts: %d and %d bytes, want at most %d: %v", texts, a.Len(), b.Len(), most, err)
		}
		got, err := parquet.Read[schemas.LatentRow](bytes.NewReader(a.Bytes()), int64(a.Len()))
		if err != nil || len(got) != len(latents) {
			t.Fatal(len(got), err)
		}
		for i := range latents {
			if !bytes.Equal(got[i].TextEmbeddingBytes, latents[i].TextEmbeddingBytes) {
				t.Errorf("%d texts: row %d has another embedding", texts, i)
			}
		}
	}
}

// TestNegativeTextIsStoredOnce: the same of negative prompts.
func TestNegativeTextIsStoredOnce(t *testing.T) {
	const blob = 512 << 10
	tensors := tabletest.Latents(24, blob)
	rows := make([]schemas.EmbeddingRow, len(tensors))
	for negatives, most := range map[int]int{1: blob + 24*8192, 24: 24 * (blob + 8192)} {
		for i, l := range tensors {
			rows[i] = schemas.EmbeddingRow{ID: l.ID, TextEmbeddingBytes: l.VAELatentBytes[:4096],
				NegativeEmbeddingBytes: tensors[i%negatives].VAELatentBytes}
		}
		var b bytes.Buffer
		if _, err := write.Write(&b, tabletest.Seq(rows), write.Options{}); err != nil {
			t.Fatal(err)
		}
		if b.Len() > most {
			t.Errorf("%d negative prompts: %d bytes, want at most %d", negatives, b.Len(), most)
		}
		got, err := parquet.Read[schemas.EmbeddingRow](bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil || len(got) != len(rows) {
			t.Fatal(len(got), err)
		}
		for i := range rows {
			if !bytes.Equal(got[i].NegativeEmbeddingBytes, rows[i].NegativeEmbeddingBytes) {
				t.Errorf("%d negative prompts: row %d has another embedding", negatives, i)
			}
		}
	}
}

func TestRowGroupsByBytes(t *testing.T) {
	var b bytes.Buffer
	if _, err := write.Write(&b, tabletest.Seq(tabletest.Latents(10, 64<<10)), write.Options{RowGroupBytes: 256 << 10}); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, g := range f.RowGroups() {
		sizes = append(sizes, g.NumRows())
	}
	if want := []int64{4, 4, 2}; !reflect.DeepEqual(sizes, want) {
		t.Errorf("row groups of %v rows, want %v", sizes, want)
	}
}

func TestEqualRowsGiveEqualBytes(t *testing.T) {
	digest := func() [32]byte {
		var b bytes.Buffer
		metadata := map[string]string{"c": "3", "a": "1", "b": "2"}
		if _, err := write.Write(&b, tabletest.Seq(tabletest.Latents(50, 2048)), write.Options{Version: "1", Metadata: metadata,
			RowGroupBytes: 40 << 10}); err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(b.Bytes())
	}
	first := digest()
	for range 5 {
		if digest() != first {
			t.Fatal("the same rows gave different bytes")
		}
	}
}

func TestEveryRowType(t *testing.T) {
	roundTrip(t, schemas.VideoRow{ID: "a", Prompt: "日本 \"x\"", Seed: 1 << 62, FPS: 23.976, Extra: "{}"}, schemas.VideoRow{})
	roundTrip(t, schemas.FailureRow{ID: "a", Message: "no", Class: "row"}, schemas.FailureRow{})
	seed, guidance := int64(0), 0.0
	roundTrip(t, schemas.EmbeddingRow{ID: "a", TextEmbeddingBytes: []byte{1, 2}, TextEmbeddingShape: []int64{1, 1},
		Seed: &seed, GuidanceScale: &guidance, Height: 64, TextLength: 1},
		schemas.EmbeddingRow{ID: "b", TextEmbeddingBytes: []byte{}, TextEmbeddingShape: []int64{}})
}

func roundTrip[T schemas.Row](t *testing.T, rows ...T) {
	t.Helper()
	var b bytes.Buffer
	if _, err := write.Write(&b, tabletest.Seq(rows), write.Options{}); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[T](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(got) != len(rows) || fmt.Sprintf("%+v", got[0].ByteSize()) == "" {
		t.Fatal(err)
	}
	for i := range rows {
		if a, b := fmt.Sprintf("%#v", deref(got[i])), fmt.Sprintf("%#v", deref(rows[i])); a != b {
			t.Errorf("%s row %d\ngot  %s\nwant %s", rows[i].Schema(), i, a, b)
		}
	}
}

// deref flattens a row's pointers and empty slices for comparing.
func deref(row any) []any {
	var out []any
	v := reflect.ValueOf(row)
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Pointer && !f.IsNil():
			out = append(out, "given", f.Elem().Interface())
		case f.Kind() == reflect.Slice && f.Len() == 0, f.Kind() == reflect.Pointer:
			out = append(out, nil)
		default:
			out = append(out, f.Interface())
		}
	}
	return out
}

func TestWriteStopsAtAnError(t *testing.T) {
	bad := errors.New("the source failed")
	rows := func(yield func(schemas.VideoRow, error) bool) {
		_ = yield(schemas.VideoRow{ID: "a"}, nil) && yield(schemas.VideoRow{}, bad)
	}
	var b bytes.Buffer
	if n, err := write.Write(&b, rows, write.Options{}); !errors.Is(err, bad) || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
	if _, err := write.Write(failingWriter{}, tabletest.Seq(tabletest.Latents(3, 1<<20)), write.Options{RowGroupBytes: 1}); err == nil {
		t.Error("a failing disk went unnoticed")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }
