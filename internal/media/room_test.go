package media

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/schemas"
)

// withRoom replaces the room for pictures during a test.
func withRoom(t *testing.T, r *room) {
	before := pictures
	pictures = func() *room { return r }
	t.Cleanup(func() { pictures = before })
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pngBytes(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRoom: sources that are open at the same time use at most the memory of the room. Others wait, and all are read. A source that is too
// large alone is an error.
func TestRoom(t *testing.T) {
	const width, height = 64, 32
	still := writeFile(t, "image.png", pngBytes(t, image.NewRGBA(image.Rect(0, 0, width, height))))
	video := writeFile(t, "video.y4m", []byte("YUV4MPEG2 W64 H32 F8:1 C444\nFRAME\n"+string(make([]byte, width*height*3))))
	for path, perPixel := range map[string]int64{still: 4 + 3, video: 3 + 3, filepath.Dir(still): 15 + 3} {
		need := perPixel * width * height
		r := newRoom(2*need+1, need)
		withRoom(t, r)
		var open, most, read atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				src, err := OpenSource(t.Context(), path, SourceOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				for now := open.Add(1); ; {
					if before := most.Load(); now <= before || most.CompareAndSwap(before, now) {
						break
					}
				}
				time.Sleep(time.Millisecond)
				if err := src.Next(make([]byte, width*height*3)); err == nil {
					read.Add(1)
				}
				open.Add(-1)
				if err := src.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if read.Load() != 8 || most.Load() > 2 {
			t.Errorf("%s: %d of 8 were read, %d at the same time", path, read.Load(), most.Load())
		}
		if !r.free.TryAcquire(2*need + 1) {
			t.Errorf("%s: memory is still reserved after all reads", path)
		}
		withRoom(t, newRoom(need, need-1))
		if _, err := OpenSource(t.Context(), path, SourceOptions{}); err == nil ||
			!strings.Contains(err.Error(), "a frame of 64x32: it needs") {
			t.Errorf("%s: a clip that is too large gives %v", path, err)
		}
	}
}

// TestWaitingForRoomEnds: waiting for room ends when its context is cancelled.
func TestWaitingForRoomEnds(t *testing.T) {
	withRoom(t, newRoom(1, 1<<20))
	path := writeFile(t, "image.png", pngBytes(t, image.NewGray(image.Rect(0, 0, 8, 8))))
	first, err := OpenSource(t.Context(), path, SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := OpenSource(ctx, path, SourceOptions{}); err == nil || ctx.Err() == nil {
		t.Errorf("a second source beside the first: %v", err)
	}
}

// TestLoop: a looped cut opens its file again, although there is room for only one source.
func TestLoop(t *testing.T) {
	withRoom(t, newRoom(1, 1<<20))
	video := writeFile(t, "video.y4m", []byte("YUV4MPEG2 W2 H2 F8:1 C444\n"+strings.Repeat("FRAME\n"+string(make([]byte, 12)), 2)))
	f, err := OpenCut(t.Context(), video, 4, 0, 2, 2,
		schemas.Cut{Count: 2, Short: schemas.CutLoop, Filter: "bilinear", ScaledWidth: 2, ScaledHeight: 2}, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 4 {
		if err := f.At(make([]float32, 12), i); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
	}
}

// TestDecodedBytes: the memory for decoding an image is known from its first bytes.
func TestDecodedBytes(t *testing.T) {
	size := image.Rect(0, 0, 16, 16)
	gray, err := Poster(make([]byte, 16*16*3), 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := jpeg.Encode(&plain, image.NewGray(size), nil); err != nil {
		t.Fatal(err)
	}
	progressive := bytes.Replace(gray, []byte{0xff, 0xc0}, []byte{0xff, 0xc2}, 1)
	interlaced := pngBytes(t, image.NewRGBA64(size))
	interlaced[28] = 1
	for name, c := range map[string]struct {
		data []byte
		want int
	}{
		"png of three channels":   {pngBytes(t, image.NewRGBA(size)), 4},
		"png of 16 bits":          {pngBytes(t, image.NewNRGBA64(size)), 8},
		"grey png":                {pngBytes(t, image.NewGray(size)), 1},
		"grey png of 16 bits":     {pngBytes(t, image.NewGray16(size)), 2},
		"png with a palette":      {pngBytes(t, image.NewPaletted(size, color.Palette{color.Black})), 1},
		"png in passes":           {interlaced, 16},
		"jpeg":                    {gray, 3},
		"grey jpeg":               {plain.Bytes(), 3},
		"progressive jpeg":        {progressive, 15},
		"a file that is no image": {[]byte(strings.Repeat("x", 64)), 15},
	} {
		kind := jpegFormat
		if strings.Contains(name, "png") {
			kind = pngFormat
		}
		config, _ := codecs[kind].config(bytes.NewReader(c.data))
		if got := decodedBytes(bytes.NewReader(c.data), kind, config); got != c.want {
			t.Errorf("%s: %d bytes a pixel, want %d", name, got, c.want)
		}
	}
}
