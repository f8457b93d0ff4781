package vae

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/internal/media/marks"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestReferencesThatAreMarked: a row states which marks its references have, and nothing if they have none.
func TestReferencesThatAreMarked(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 16, 16))
	var pngFile, jpegFile bytes.Buffer
	if err := png.Encode(&pngFile, m); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&jpegFile, m, nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte, w marks.Wanted) string {
		marked, err := marks.Put(data, filepath.Ext(name), w, marks.Subject{ID: "x"})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, marked, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain.png", pngFile.Bytes(), marks.Wanted{})
	both := write("both.png", pngFile.Bytes(), marks.Wanted{IPTC: true, AIGC: true})
	one := write("one.jpg", jpegFile.Bytes(), marks.Wanted{IPTC: true})
	for reference, want := range map[string]string{plain: "", both: "aigc, iptc", one + ";" + plain: "iptc", one + ";" + both: "aigc, iptc", "": ""} {
		e := &stages.Element{Row: schemas.PromptRow{Reference: reference}}
		err := encodeReferences(t.Context(), []*stages.Element{e}, "encode_reference", func(*schemas.PromptRow) ([]*stages.Array, error) {
			return []*stages.Array{{}}, context.Cause(t.Context())
		})
		if err != nil || e.Failed != nil || e.Readings[schemas.ReadingSourceMarks] != want {
			t.Errorf("%q: %v, %v, %v, want %q", reference, err, e.Failed, e.Readings, want)
		}
	}
}
