package media

import (
	"bytes"
	"encoding/json"
	"image"
	"os"
	"testing"
)

// TestJPEG compares images of all chroma formats with those of PIL. They differ only by the rounding of the inverse transform.
func TestJPEG(t *testing.T) {
	data, err := os.ReadFile("testdata/jpeg.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct {
		JPEG, RGB     []byte
		Width, Height int
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		if c.JPEG == nil {
			continue // _about
		}
		m, _, err := image.Decode(bytes.NewReader(c.JPEG))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := make([]byte, 3*m.Bounds().Dx()*m.Bounds().Dy())
		if fromImage(got, m, jpegFormat); len(got) != len(c.RGB) {
			t.Errorf("%s: %v", name, m.Bounds())
			continue
		}
		sum, most := 0, 0
		for i, v := range got {
			d := int(v) - int(c.RGB[i])
			sum, most = sum+max(d, -d), max(most, d, -d)
		}
		if mean := float64(sum) / float64(len(got)); mean > 0.1 || most > 3 {
			t.Errorf("%s: differs by %.3f levels in the mean and %d at most", name, mean, most)
		}
	}
}
