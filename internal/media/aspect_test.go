package media

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
)

// anamorphic writes a video of two frames with 96x72 stored pixels and a display width of 128.
func anamorphic(t *testing.T) string {
	return write(t, "wide.y4m", gray(2, 96, 72, " F8:1 Ip A4:3 C420jpeg"))
}

// TestPixelAspect: the display size of a video with non-square pixels is right for every reader, and is part of its digest.
func TestPixelAspect(t *testing.T) {
	path := anamorphic(t)
	digest, err := Digest(t.Context(), path)
	if err != nil || digest[64:] != " aspect=4:3" {
		t.Errorf("%q, %v", digest, err)
	}
	paths := map[string][2]int{path: {128, 72}}
	if _, err := exec.LookPath("ffprobe"); err == nil {
		for name, filter := range map[string]string{"a.mkv": "setsar=4/3", "a.mp4": "setsar=4/3", "square.mp4": "setsar=1", "a.mpg": "setdar=16/9"} {
			other := filepath.Join(t.TempDir(), name)
			out, err := exec.Command("ffmpeg", "-v", "error", "-i", path, "-vf", filter, "-r", "25", "-pix_fmt", "yuv420p", other).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			paths[other] = [2]int{map[bool]int{true: 96, false: 128}[name == "square.mp4"], 72}
		}
		turned := filepath.Join(t.TempDir(), "turned.mp4")
		for other := range paths {
			if filepath.Base(other) == "a.mp4" {
				err := exec.Command("ffmpeg", "-v", "error", "-display_rotation", "90", "-i", other, "-c", "copy", turned).Run()
				if err != nil { // before ffmpeg 6
					err = exec.Command("ffmpeg", "-v", "error", "-i", other, "-metadata:s:v", "rotate=90", "-c", "copy", turned).Run()
				}
				if err != nil {
					t.Fatal(err)
				}
				paths[turned] = [2]int{72, 128}
			}
		}
	}
	for path, want := range paths {
		facts, err := Probe(t.Context(), path, 8)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
			continue
		}
		s, err := OpenSource(t.Context(), path, SourceOptions{Frames: 1})
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
			continue
		}
		w, h := s.Info().shown()
		s.Close()
		near := func(a, b int) bool { return math.Abs(float64(a-b)) <= 2 } // sides are whole, and mpeg knows few ratios
		if facts.Width != w || facts.Height != h || !near(w, want[0]) || !near(h, want[1]) {
			t.Errorf("%s: probed as %dx%d, opened as %dx%d, want %dx%d", filepath.Base(path), facts.Width, facts.Height, w, h, want[0], want[1])
		}
	}
}

// TestAspectFits: stored pixels are resampled once, directly to the display size. The expected values come from the same filter from
// 96x72 to 64x36, which crops nothing.
func TestAspectFits(t *testing.T) {
	stored := SourceInfo{Width: 96, Height: 72, RateNum: 8, RateDen: 1}
	rgb := make([]byte, 96*72*3)
	for i := range rgb {
		rgb[i] = byte(i * 7 / 3)
	}
	wide := stored
	wide.Aspect = [2]int{4, 3}
	f := fit(t, wide, 36, 64)
	got := make([]float32, 36*64*3)
	f.Fit(got, rgb)
	want := &Fitter{from: [2]int{72, 96}, to: [2]int{36, 64}, rows: bilinear(72, 36), cols: bilinear(96, 64)}
	expected := make([]float32, len(got))
	want.Fit(expected, rgb)
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		t.Error("a frame of 4:3 pixels is not resampled once")
	}
	if square := fit(t, stored, 36, 64); fmt.Sprint(square.cols) == fmt.Sprint(f.cols) && fmt.Sprint(square.rows) == fmt.Sprint(f.rows) {
		t.Error("frames of square pixels and of 4:3 pixels are resampled in the same way")
	}
}
