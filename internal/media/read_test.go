package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pattern returns the image of testdata/fit.json.
func pattern(h, w int) []byte {
	rgb := make([]byte, 0, h*w*3)
	for y := range h {
		for x := range w {
			for c := range 3 {
				v := y*y*7 + x*x*3 + x*y*(c+1)*5 + c*83 + (x*2654435761+y*40503+c*977)%65536/512
				rgb = append(rgb, byte(v%256))
			}
		}
	}
	return rgb
}

// TestFitMatchesReferences compares with PIL, byte by byte, and with PyTorch.
func TestFitMatchesReferences(t *testing.T) {
	data, err := os.ReadFile("testdata/fit.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	delete(cases, "_about")
	for name, data := range cases {
		var want struct {
			Image []int
			Video []float64
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		var h, w, th, tw int
		if _, err := fmt.Sscanf(name, "%dx%d to %dx%d", &h, &w, &th, &tw); err != nil {
			t.Fatal(err)
		}
		rgb, dst := pattern(h, w), make([]float32, th*tw*3)
		fit(t, SourceInfo{Width: w, Height: h, Still: true}, th, tw).Fit(dst, rgb)
		for i, v := range want.Image {
			if got := math.Round((float64(dst[7*i])/2 + 0.5) * 255); int(got) != v {
				t.Errorf("%s: byte %d of the image is %v, want %d", name, 7*i, got, v)
				break
			}
		}
		fit(t, SourceInfo{Width: w, Height: h}, th, tw).Fit(dst, rgb)
		for i, v := range want.Video {
			if got := float64(dst[11*i]); math.Abs(got-v) > 5e-6 {
				t.Errorf("%s: value %d of the frame is %v, want %v", name, 11*i, got, v)
				break
			}
		}
	}
}

func fit(t *testing.T, info SourceInfo, h, w int) *Fitter {
	t.Helper()
	f, err := NewFitter(info, h, w)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// gray returns a y4m file of n uniform grey frames: frame i has luma 16+10i.
func gray(n, w, h int, header string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "YUV4MPEG2 W%d H%d%s\n", w, h, header)
	for i := range n {
		b.WriteString("FRAME\n")
		b.Write(bytes.Repeat([]byte{byte(16 + 10*i)}, w*h))
		b.Write(bytes.Repeat([]byte{128}, 2*((w+1)/2)*((h+1)/2)))
	}
	return b.Bytes()
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// shades returns, for each of n frames of a file, the number of the frame of gray with the same grey.
func shades(t *testing.T, path string, n int, fps float64) (list []int, err error) {
	t.Helper()
	f, err := OpenFrames(context.Background(), path, n, fps, 8, 8, Rules{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dst := make([]float32, 8*8*3)
	for i := range n {
		if err := f.At(dst, i); err != nil {
			return list, err
		}
		luma := (float64(dst[0])/2+0.5)*219 + 16
		list = append(list, int(math.Round((luma-16)/10)))
	}
	return list, nil
}

// TestFramesFollowTheClock: frame i of the result is the frame that is shown at the time i / rate, for every reader.
func TestFramesFollowTheClock(t *testing.T) {
	path := write(t, "gray.y4m", gray(12, 16, 16, " F24:1 Ip C420jpeg"))
	for _, c := range []struct {
		n    int
		fps  float64
		want string
	}{
		{5, 24, "[0 1 2 3 4]"}, {4, 8, "[0 3 6 9]"}, {5, 10, "[0 2 4 7 9]"}, {6, 48, "[0 0 1 1 2 2]"},
		{4, 0, "[0 1 2 3]"}, {12, 24, "[0 1 2 3 4 5 6 7 8 9 10 11]"}, {4, 24000.0 / 1001, "[0 1 2 3]"},
	} {
		got, err := shades(t, path, c.n, c.fps)
		if fmt.Sprint(got) != c.want || err != nil {
			t.Errorf("%d frames at %v: %v, %v; want %s", c.n, c.fps, got, err, c.want)
		}
	}
	_, err := shades(t, path, 5, 8)
	if err == nil || !strings.Contains(err.Error(), "has 12 frames at 24 a second, 5 frames at 8 a second") {
		t.Errorf("a video that is too short: %v", err)
	}
}

// TestFFmpegReads: a file in another container gives the same frames as the y4m file from which it was made.
func TestFFmpegReads(t *testing.T) {
	needTools(t)
	y4m := write(t, "gray.y4m", gray(12, 16, 16, " F24:1 Ip C420jpeg"))
	path := filepath.Join(t.TempDir(), "gray clip.mkv")
	out, err := exec.Command("ffmpeg", "-v", "error", "-i", y4m, "-c:v", "ffv1", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, fps := range []float64{24, 8, 10, 0} {
		want, _ := shades(t, y4m, 4, fps)
		got, err := shades(t, path, 4, fps)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("at %v: %v, %v; want %v", fps, got, err, want)
		}
	}
	if _, err := shades(t, path, 13, 24); err == nil || !strings.Contains(err.Error(), "has 12 frames") {
		t.Errorf("a video that is too short: %v", err)
	}
	broken := write(t, "broken.mp4", []byte("this is no video"))
	if _, err := shades(t, broken, 1, 8); err == nil || !strings.Contains(err.Error(), "broken.mp4: ffmpeg: ") {
		t.Errorf("a broken file: %v", err)
	}
}

// TestFFmpegReadsOneFile: a playlist or a pattern with the name of a video does not make ffmpeg read other files, because keys do not
// contain these. If no frame arrives in time, reading fails.
func TestFFmpegReadsOneFile(t *testing.T) {
	needTools(t)
	dir := t.TempDir()
	for name, frames := range map[string]string{"clip.mkv": "4", "1.bmp": "1", "one.webp": "1", "few.gif": "4"} {
		out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=d=1:s=64x64:r=4", "-frames:v", frames,
			filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for name, text := range map[string]string{"concat.mp4": "ffconcat version 1.0\nfile clip.mkv\n", "%d.bmp": "",
		"list.mkv": "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nclip.mkv\n#EXT-X-ENDLIST\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenSource(t.Context(), filepath.Join(dir, name), SourceOptions{}); err == nil {
			s.Close()
			t.Errorf("%s: other files are read", name)
		} else if text != "" && !strings.Contains(err.Error(), "not a video in one file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"clip.mkv", "1.bmp", "one.webp", "few.gif"} {
		s, err := OpenSource(t.Context(), filepath.Join(dir, name), SourceOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s.Close()
	}
	defer func(d time.Duration) { frameTime = d }(frameTime)
	frameTime = time.Nanosecond
	if _, err := OpenSource(t.Context(), filepath.Join(dir, "clip.mkv"), SourceOptions{}); err == nil ||
		!strings.Contains(err.Error(), "no progress for 1ns") {
		t.Errorf("a frame that does not come: %v", err)
	}
}

func TestFFmpegIsNamedWhereItIsMissing(t *testing.T) {
	path := write(t, "clip.mp4", []byte("anything"))
	_, err := OpenSource(context.Background(), path, SourceOptions{FFmpeg: "no-such-ffmpeg"})
	if err == nil || !strings.Contains(err.Error(), ".mp4 files need ffmpeg") ||
		!strings.Contains(err.Error(), "apt install ffmpeg") {
		t.Errorf("error %v", err)
	}
}

// images writes images with one colour each into a folder.
func images(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, name := range names {
		m := image.NewNRGBA(image.Rect(0, 0, 8, 8))
		for p := range 64 {
			m.Set(p%8, p/8, color.NRGBA{byte(40 * (i + 1)), 100, 200, 255})
		}
		var b bytes.Buffer
		err := png.Encode(&b, m)
		if strings.HasSuffix(name, "jpg") {
			b.Reset()
			err = jpeg.Encode(&b, m, &jpeg.Options{Quality: 100})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestImagesAndFolders(t *testing.T) {
	dir := images(t, "a.png", "b.jpg", "c.png")
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(path string, n int) ([]float64, error) {
		f, err := OpenFrames(context.Background(), path, n, 8, 8, 8, Rules{})
		if err != nil {
			return nil, err
		}
		defer f.Close()
		dst := make([]float32, 192)
		var red []float64
		for i := range n {
			if err := f.At(dst, i); err != nil {
				return red, err
			}
			red = append(red, math.Round((float64(dst[0])/2+0.5)*255))
		}
		return red, nil
	}
	if got, err := read(dir, 3); err != nil || fmt.Sprint(got) != "[40 80 120]" {
		t.Errorf("a folder: %v, %v", got, err)
	}
	if _, err := read(dir, 4); err == nil || !strings.Contains(err.Error(), "has 3 frames, 4 are wanted") {
		t.Errorf("a folder with too few images: %v", err)
	}
	if got, err := read(filepath.Join(dir, "c.png"), 3); err != nil || fmt.Sprint(got) != "[120 120 120]" {
		t.Errorf("an image is repeated: %v, %v", got, err)
	}
}

// TestColours: colours are read as this package encodes them. Transparency is ignored.
func TestColours(t *testing.T) {
	dst := make([]byte, 3)
	for _, m := range []image.Image{
		fill(image.NewNRGBA(image.Rect(3, 2, 4, 3)), color.NRGBA{200, 100, 50, 128}),
		fill(image.NewRGBA64(image.Rect(0, 0, 1, 1)), color.NRGBA{200, 100, 50, 255}),
		fill(image.NewNRGBA64(image.Rect(0, 0, 1, 1)), color.NRGBA{200, 100, 50, 255}),
		fill(image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.NRGBA{200, 100, 50, 255}}),
			color.NRGBA{200, 100, 50, 255}),
	} {
		fromImage(dst, m, pngFormat)
		if dst[0] != 200 || dst[1] != 100 || dst[2] != 50 {
			t.Errorf("%T: %v, want 200 100 50", m, dst)
		}
	}
	for _, c := range []struct {
		header    string
		y, u, v   byte
		tolerance int
		want      [3]int
	}{
		{" C444 XCOLORRANGE=FULL", 76, 85, 255, 2, [3]int{254, 0, 0}}, {" C444", 81, 90, 240, 2, [3]int{255, 0, 0}},
		{" C422", 145, 54, 34, 2, [3]int{0, 255, 0}}, {" C420", 235, 128, 128, 0, [3]int{255, 255, 255}},
		{" Cmono", 16, 0, 0, 0, [3]int{0, 0, 0}},
	} {
		data := []byte("YUV4MPEG2 W1 H1 F0:0" + c.header + "\nFRAME\n" + string([]byte{c.y, c.u, c.v}))
		s, err := newY4M(io.NopCloser(bytes.NewReader(data)))
		if err == nil {
			err = s.makeRoom(t.Context(), planesBytes)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Next(dst); err != nil {
			t.Fatal(err)
		}
		for i, w := range c.want {
			if d := int(dst[i]) - w; d > c.tolerance || d < -c.tolerance {
				t.Errorf("%s: %v, want %v", c.header, dst, c.want)
			}
		}
	}
}

func fill[M interface {
	image.Image
	Set(x, y int, c color.Color)
}](m M, c color.Color) image.Image {
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			m.Set(x, y, c)
		}
	}
	return m
}

// TestBadFiles: a bad file gives an error that names the file and the reason, and no panic or large allocation.
func TestBadFiles(t *testing.T) {
	good := string(gray(2, 4, 4, " F8:1"))
	uneven := images(t, "a.png", "c.png")
	if err := os.WriteFile(filepath.Join(uneven, "b.png"), pngOf(t, 4, 8), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, data, want string }{
		{"a.y4m", "", "not a y4m file"},
		{"a.y4m", "RIFF\n", "not a y4m file: its first bytes"},
		{"a.y4m", "YUV4MPEG2" + strings.Repeat("x", 1<<16), "a line of more than 4096 bytes"},
		{"a.y4m", "YUV4MPEG2 W4\n", "frames of 4x0"},
		{"a.y4m", "YUV4MPEG2 Wx H4\n", `header "Wx"`},
		{"a.y4m", "YUV4MPEG2 W16384 H16384\n", "at most 67108864 pixels"},
		{"a.y4m", "YUV4MPEG2 W99999999999999999999 H4\n", "header"},
		{"a.y4m", "YUV4MPEG2 W4 H4 F8\n", "not a frame rate"},
		{"a.y4m", "YUV4MPEG2 W4 H4 F-8:1\n", "not a frame rate"},
		{"a.y4m", "YUV4MPEG2 W4 H4 C420p10\n", "C420p10"},
		{"a.y4m", good[:len(good)-1], "cut off"},
		{"a.y4m", strings.Replace(good, "FRAME", "frame", 1), "does not begin with FRAME"},
		{"a.y4m", "YUV4MPEG2 W4 H4 F8:1\n", "has 0 frames at 8 a second"},
		{"a.png", "not a png", "not a png file: its first bytes are those of no image or video"},
		{"a.jpg", string(pngOf(t, 4, 4)[:60]), "a.jpg: "},
	} {
		path := write(t, c.name, []byte(c.data))
		if _, err := shades(t, path, 2, 8); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30q: error %v does not say %q", c.data, err, c.want)
		}
	}
	for path, want := range map[string]string{
		t.TempDir(): "holds no png or jpeg", "missing.y4m": "read missing.y4m: no such file",
		uneven: "b.png: the image has 4x8 pixels, the first of the folder 8x8",
	} {
		if _, err := shades(t, path, 3, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", path, err, want)
		}
	}
}

func pngOf(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDigest: a digest depends on the content and not on the path. The digest of a folder depends on the names and contents of its images.
func TestDigest(t *testing.T) {
	digest := func(path string) string {
		d, err := Digest(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	head := []byte("\x89PNG\r\n\x1a\n")
	if got, want := digest(write(t, "a.png", head)), fmt.Sprintf("%x", sha256.Sum256(head)); got != want {
		t.Errorf("digest of a png is %s, want %s", got, want)
	}
	one, same, other := images(t, "a.png", "b.png"), images(t, "a.png", "b.png"), images(t, "a.png", "c.png")
	if digest(one) != digest(same) || digest(one) == digest(other) {
		t.Error("folders: equal ones differ, or others are equal")
	}
	if _, err := Digest(t.Context(), t.TempDir()); err == nil {
		t.Error("an empty folder has a digest")
	}
	if _, err := Digest(t.Context(), "missing"); !errors.Is(err, os.ErrNotExist) && err == nil {
		t.Error("a missing file has a digest")
	}
}

// TestKilled: when a reader is closed before the last frame, its ffmpeg ends.
func TestKilled(t *testing.T) {
	needTools(t)
	y4m := write(t, "gray.y4m", gray(20, 640, 480, " F24:1"))
	path := strings.TrimSuffix(y4m, ".y4m") + ".mkv"
	if out, err := exec.Command("ffmpeg", "-v", "error", "-i", y4m, "-c:v", "ffv1", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := OpenSource(context.Background(), path, SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Next(make([]byte, 640*480*3)); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-s.(*piped).child.Ended():
	default:
		t.Error("ffmpeg still runs")
	}
}
