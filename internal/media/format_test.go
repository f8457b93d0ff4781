package media

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"image"
	"image/color/palette"
	"image/gif"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// ofPillow is an image file with the pixels that Pillow reads from it.
type ofPillow struct {
	File, RGB     []byte // RGB is compressed by zlib
	Width, Height int
}

// imagesOfPillow returns images of all formats by name.
func imagesOfPillow(t testing.TB) map[string]ofPillow {
	t.Helper()
	text, err := os.ReadFile("testdata/images.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	images := map[string]ofPillow{}
	for name, entry := range all {
		if name == "_about" {
			continue
		}
		var c ofPillow
		if err := json.Unmarshal(entry, &c); err != nil {
			t.Fatal(err)
		}
		images[name] = c
	}
	return images
}

// TestImagesAreThoseOfPillow: images of all formats, in files without an extension, have the size, orientation and colours of Pillow.
func TestImagesAreThoseOfPillow(t *testing.T) {
	for name, c := range imagesOfPillow(t) {
		packed, err := zlib.NewReader(bytes.NewReader(c.RGB))
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		s, err := OpenSource(t.Context(), write(t, "image", c.File), SourceOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if i := s.Info(); i.Width != c.Width || i.Height != c.Height || !i.Still {
			t.Errorf("%s: %+v, want an image of %dx%d", name, i, c.Width, c.Height)
			continue
		}
		got := make([]byte, len(want))
		if err := s.Next(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
		most := 0
		if strings.HasSuffix(name, ".jpg") {
			most = 3 // another inverse transform
		}
		for i, v := range got {
			if d := int(v) - int(want[i]); d < -most || d > most {
				t.Errorf("%s: %d at %d,%d, want %d", name, v, i/3%c.Width, i/3/c.Width, want[i])
				break
			}
		}
	}
}

// TestKeysOfImages: the digest of an image has a suffix if earlier versions read the image differently. Otherwise it is only the digest of
// the content, whatever the file's name.
func TestKeysOfImages(t *testing.T) {
	all := imagesOfPillow(t)
	for name, want := range map[string]string{
		"exif-1.jpg": "", "exif-6.jpg": " turn=6", "exif-3.png": " turn=3", "lossy-odd.webp": " decoded=webp",
		"exif-5.webp": " decoded=webp turn=5", "rgb.bmp": " decoded=bmp", "gray.tiff": " decoded=tiff", "one-frame.gif": " decoded=gif",
	} {
		for _, file := range []string{name, "image.mp4"} {
			digest, err := Digest(t.Context(), write(t, file, all[name].File))
			if err != nil || digest[64:] != want {
				t.Errorf("%s as %s: %q, %v; want %q", name, file, digest, err, want)
			}
		}
	}
}

// TestLookText: LookFrom parses the result of Look.String, and rejects other texts.
func TestLookText(t *testing.T) {
	for _, l := range []Look{{format: pngFormat}, {format: jpegFormat, turn: 6}, {format: y4mFormat, aspect: [2]int{4, 3}, interlaced: true},
		{format: otherFormat, transfer: PQ, aspect: [2]int{16, 11}}} {
		if got, ok := LookFrom(l.String()); !ok || got != l {
			t.Errorf("%q is read as %+v, %v", l, got, ok)
		}
	}
	for _, text := range []string{"", "jpeg turn", "jpeg turn=x", "heic", "png shiny"} {
		if l, ok := LookFrom(text); ok {
			t.Errorf("%q is a look: %+v", text, l)
		}
	}
}

// TestUnreadImages: the error for an unsupported kind of image names the kind and says what to do.
func TestUnreadImages(t *testing.T) {
	animated := append([]byte("RIFF\x00\x01\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x0f\x00\x00\x0f\x00\x00"), make([]byte, 100)...)
	packed := append([]byte("BM\x00\x01\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x04\x00\x00\x00\x04\x00\x00\x00\x01\x00\x08\x00\x01"),
		make([]byte, 100)...)
	for want, data := range map[string][]byte{"an animated webp is not read": animated, "a bmp of a kind that is not read": packed} {
		if _, err := OpenSource(t.Context(), write(t, "x", data), SourceOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestGIFFrames: a gif of two frames is a video.
func TestGIFFrames(t *testing.T) {
	frame := image.NewPaletted(image.Rect(0, 0, 8, 8), palette.WebSafe)
	for n := 1; n < 4; n++ {
		g := &gif.GIF{Image: slices.Repeat([]*image.Paletted{frame}, n), Delay: make([]int, n)}
		var b bytes.Buffer
		if err := gif.EncodeAll(&b, g); err != nil {
			t.Fatal(err)
		}
		kind, err := formatOf(bytes.NewReader(b.Bytes()))
		if got := gifFrames(bytes.NewReader(b.Bytes()), 9); got != n || err != nil || (kind == gifFormat) != (n == 1) {
			t.Errorf("%d frames are counted as %d, as %s, %v", n, got, kind, err)
		}
	}
}

// TestFrameFiles: frames are in the order of their numbers, without hidden files. Images other than png and jpeg are used only if a folder
// has none of these.
func TestFrameFiles(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"1.png 10.png 2.png ._1.png .DS_Store Thumbs.db", "1.png 2.png 10.png"},
		{"0001.png 0002.png 0010.png", "0001.png 0002.png 0010.png"},
		{"f9.jpg f10.jpg f09.jpg", "f09.jpg f9.jpg f10.jpg"},
		{"a-2-10.jpg a-2-9.jpg a-10-1.jpg", "a-2-9.jpg a-2-10.jpg a-10-1.jpg"},
		{"b.PNG a.jpeg cover.webp note.txt", "a.jpeg b.PNG"},
		{"2.webp 1.webp 1.txt", "1.webp 2.webp"},
		{"99999999999999999999998.png 99999999999999999999999.png 1.png", "1.png 99999999999999999999998.png 99999999999999999999999.png"},
		{"", ""},
	} {
		if got := strings.Join(FrameFiles(strings.Fields(c.names)), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.names, got, c.want)
		}
	}
	for name, want := range map[string]bool{"._a.mp4": true, "a/.DS_Store": true, ".a/b.mp4": false, "a.mp4": false, "THUMBS.DB": true} {
		if Hidden(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
