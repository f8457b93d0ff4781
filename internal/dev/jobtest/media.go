package jobtest

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// WritePicture writes a png of one colour.
func WritePicture(t *testing.T, c color.Color) string {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 30, 20))
	for i := range img.Pix {
		r, g, b, _ := c.RGBA()
		img.Pix[i] = []byte{byte(r >> 8), byte(g >> 8), byte(b >> 8), 255}[i%4]
	}
	path := filepath.Join(t.TempDir(), "picture.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
	return path
}

// TableFile returns the first file of a table of an output.
func TableFile(out, name string) string { return filepath.Join(out, "tables", name, "00000.parquet") }
