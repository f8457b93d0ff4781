package resize

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// pattern returns the image of testdata/golden.py.
func pattern(w, h int) []byte {
	var b []byte
	for y := range h {
		for x := range w {
			for c := range 3 {
				b = append(b, byte(x*x*7+y*y*13+x*y*(c+3)+c*71+(x/5+y/3)%2*97))
			}
		}
	}
	return b
}

// TestLikePillow: every byte is Pillow's. testdata/golden.py wrote the digests, and the largest differences of a pixel
// value between Pillow and torchvision: 1 for uint8 tensors.
func TestLikePillow(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Filter      Filter
			Size        [4]int
			SHA256      string
			Torchvision float64 `json:"torchvision_uint8"`
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) != 24 {
		t.Errorf("%d cases", len(golden.Cases))
	}
	for _, c := range golden.Cases {
		from, to := Size{c.Size[0], c.Size[1]}, Size{c.Size[2], c.Size[3]}
		r, err := New(c.Filter, from, to, Rect{0, 0, to.Width, to.Height})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3*to.Width*to.Height)
		r.Resize(got, pattern(from.Width, from.Height))
		if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != c.SHA256 {
			t.Errorf("%s %v is not what Pillow makes", c.Filter, c.Size)
		}
		if c.Torchvision > 1 {
			t.Errorf("%s %v: torchvision differs by %v", c.Filter, c.Size, c.Torchvision)
		}
	}
}

// TestPart: a part has the pixels of the whole result at its position.
func TestPart(t *testing.T) {
	from, to, part := Size{67, 41}, Size{50, 60}, Rect{7, 11, 20, 30}
	for _, name := range Filters() {
		whole, err := New(Filter(name), from, to, Rect{0, 0, 50, 60})
		if err != nil {
			t.Fatal(err)
		}
		some, err := New(Filter(name), from, to, part)
		if err != nil {
			t.Fatal(err)
		}
		all, got := make([]byte, 3*50*60), make([]byte, 3*20*30)
		whole.Resize(all, pattern(67, 41))
		some.Resize(got, pattern(67, 41))
		for y := range part.Height {
			if !bytes.Equal(got[3*20*y:][:3*20], all[3*(50*(part.Y+y)+part.X):][:3*20]) {
				t.Fatalf("%s: row %d of the part differs from the row of the whole image", name, y)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, part := range []Rect{{0, 0, 9, 8}, {-1, 0, 2, 2}, {0, 0, 0, 1}} {
		if _, err := New(Area, Size{8, 8}, Size{8, 8}, part); err == nil {
			t.Errorf("the invalid part %v is accepted", part)
		}
	}
	if _, err := New("nearest", Size{8, 8}, Size{8, 8}, Rect{0, 0, 8, 8}); err == nil {
		t.Error("an unknown filter is accepted")
	}
}

func BenchmarkResize(b *testing.B) {
	for _, name := range Filters() {
		b.Run(name, func(b *testing.B) {
			r, _ := New(Filter(name), Size{1280, 720}, Size{427, 240}, Rect{5, 0, 416, 240})
			dst, src := make([]byte, 3*416*240), pattern(1280, 720)
			for b.Loop() {
				r.Resize(dst, src)
			}
		})
	}
}
