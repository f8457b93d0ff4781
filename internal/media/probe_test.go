package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/schemas"
)

// made lists videos of ffmpeg's test source: the name, and the arguments before the output.
var made = []struct {
	name string
	args []string
	seek bool // windows in the middle are decoded from a keyframe
}{
	{"plain.mp4", []string{"-c:v", "libx264", "-g", "12", "-bf", "2"}, true},
	{"opengop.mp4", []string{"-c:v", "libx264", "-x264-params", "open-gop=1:keyint=12:bframes=3"}, true},
	{"sound.mp4", []string{"-c:v", "libx264", "-g", "10", "-c:a", "aac", "-shortest"}, true},
	{"moved.mov", []string{"-c:v", "mpeg4", "-g", "8", "-output_ts_offset", "1.5"}, true},
	{"turned.mp4", []string{"-c:v", "libx264", "-g", "12", "-metadata:s:v", "rotate=90"}, true},
	{"uneven.mp4", []string{"-vf", "select='not(eq(mod(n,7),3))'", "-vsync", "vfr", "-c:v", "libx264", "-g", "12"}, true},
	{"pieces.mp4", []string{"-c:v", "libx264", "-g", "12", "-movflags", "frag_keyframe+empty_moov"}, true},
	{"a.mkv", []string{"-c:v", "libx264", "-g", "12", "-bf", "2"}, true},
	{"a.webm", []string{"-c:v", "libvpx", "-g", "12", "-deadline", "realtime"}, true},
	{"a.avi", []string{"-c:v", "mpeg4", "-g", "12"}, false},
	{"a.ts", []string{"-c:v", "libx264", "-g", "12"}, false},
	{"a.gif", nil, false},
}

// video writes a file of 60 frames of 96x64 at 24 a second, with sound if the container can have it.
func video(t *testing.T, name string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	all := append([]string{"-v", "error", "-f", "lavfi", "-i", "testsrc2=size=96x64:rate=24:duration=2.5", "-f", "lavfi", "-i",
		"sine=duration=2.5", "-pix_fmt", "yuv420p", "-threads", "1"}, args...)
	if filepath.Ext(name) == ".gif" {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "-pix_fmt" || s == "yuv420p" })
	}
	if !slices.Contains(args, "-c:a") {
		all = append(all, "-an")
	}
	if out, err := exec.Command("ffmpeg", append(all, path)...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg: %v: %s", err, out)
	}
	return path
}

// all returns all frames of a file at a rate.
func all(t *testing.T, path string, fps float64) (frames [][]byte, info SourceInfo) {
	t.Helper()
	src, err := OpenSource(context.Background(), path, SourceOptions{FPS: fps, Window: &Window{}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for {
		rgb := make([]byte, src.Info().Width*src.Info().Height*3)
		if err := src.Next(rgb); errors.Is(err, io.EOF) {
			return frames, src.Info()
		} else if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, rgb)
	}
}

// TestProbe: Probe returns the number and the size of the frames that reading gives, at every rate.
func TestProbe(t *testing.T) {
	needTools(t)
	ctx := context.Background()
	for _, c := range made {
		path := video(t, c.name, c.args...)
		for _, fps := range []float64{0, 7, 30} {
			f, err := Probe(ctx, path, fps)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			frames, info := all(t, path, fps)
			if f.Frames != len(frames) || f.Width != info.Width || f.Height != info.Height || f.Still {
				t.Errorf("%s at %v: probed %+v, read %d frames of %dx%d", c.name, fps, f, len(frames), info.Width, info.Height)
			}
		}
	}
}

// TestCutsAreWindows: a cut in the middle has the same frames as decoding from the start of the file. If the container has an index,
// decoding starts at a keyframe.
func TestCutsAreWindows(t *testing.T) {
	needTools(t)
	ctx := context.Background()
	for _, c := range made {
		path := video(t, c.name, c.args...)
		for _, fps := range []float64{0, 30} {
			f, err := Probe(ctx, path, fps)
			if err != nil {
				t.Fatal(err)
			}
			whole, info := all(t, path, fps)
			dst, want := make([]float32, info.Width*info.Height*3), make([]float32, info.Width*info.Height*3)
			for _, start := range []int{1, 25, f.Frames - 5} {
				cut := schemas.Cut{Start: start, Count: 5, Filter: "area", ScaledWidth: info.Width, ScaledHeight: info.Height,
					Seek: f.Seek(start), Origin: f.Origin}
				if (cut.Seek != 0) != (c.seek && fps > 0 && start > 20) && start > 20 {
					t.Errorf("%s at %v: frame %d is decoded from %d us on", c.name, fps, start, cut.Seek)
				}
				frames, err := OpenCut(ctx, path, 5, fps, info.Height, info.Width, cut, Rules{})
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				fit, err := NewCutFitter(info, info.Height, info.Width, cut)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					if err := frames.At(dst, i); err != nil {
						t.Fatalf("%s at %v from %d: frame %d: %v", c.name, fps, start, i, err)
					}
					fit.Fit(want, whole[start+i])
					if !slices.Equal(dst, want) {
						t.Errorf("%s at %v: frame %d of the window at %d is not frame %d of the file", c.name, fps, i, start, start+i)
						break
					}
				}
				frames.Close()
			}
		}
	}
}

// TestShortCuts: a clip that is too short is looped or padded, as the cut says.
func TestShortCuts(t *testing.T) {
	path := write(t, "gray.y4m", gray(12, 16, 16, " F8:1 Ip C420jpeg"))
	for _, c := range []struct {
		short string
		fps   float64
		want  string
	}{
		{schemas.CutLoop, 8, "[9 10 11 9 10 11 9]"},
		{schemas.CutPad, 8, "[9 10 11 11 11 11 11]"},
		{schemas.CutLoop, 16, "[4 5 5 4 5 5 4]"},
	} {
		frames, err := OpenCut(context.Background(), path, 7, c.fps, 8, 8, schemas.Cut{Start: 9, Count: 3, Short: c.short,
			Filter: "area", ScaledWidth: 8, ScaledHeight: 8}, Rules{})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		dst := make([]float32, 8*8*3)
		for i := range 7 {
			if err := frames.At(dst, i); err != nil {
				t.Fatal(err)
			}
			got = append(got, int((dst[0]/2+0.5)*219/10+0.5))
		}
		frames.Close()
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s at %v: frames %v, want %s", c.short, c.fps, got, c.want)
		}
	}
}

// TestCutFits: crops, borders and mirroring follow the cut.
func TestCutFits(t *testing.T) {
	info := SourceInfo{Width: 4, Height: 2, Still: true}
	rgb := make([]byte, 4*2*3)
	for i := range rgb {
		rgb[i] = byte(10 + i/3) // pixel number
	}
	for _, c := range []struct {
		cut  schemas.Cut
		h, w int
		want string
	}{
		{schemas.Cut{X: 1}, 2, 2, "[11 12 15 16]"},
		{schemas.Cut{X: 1, Flipped: true}, 2, 2, "[12 11 16 15]"},
		{schemas.Cut{X: -1}, 2, 6, "[0 10 11 12 13 0 0 14 15 16 17 0]"},
		{schemas.Cut{X: -1, Flipped: true}, 2, 6, "[0 13 12 11 10 0 0 17 16 15 14 0]"},
		{schemas.Cut{Y: -1}, 4, 4, "[0 0 0 0 10 11 12 13 14 15 16 17 0 0 0 0]"},
		{schemas.Cut{Y: -1, X: 2}, 3, 2, "[0 0 12 13 16 17]"},
	} {
		c.cut.Filter, c.cut.ScaledWidth, c.cut.ScaledHeight = "lanczos", 4, 2
		f, err := NewCutFitter(info, c.h, c.w, c.cut)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, c.h*c.w*3)
		f.Fit(dst, rgb)
		var got []int
		for i := 0; i < len(dst); i += 3 {
			got = append(got, int((dst[i]/2+0.5)*255+0.5))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%+v: %v, want %s", c.cut, got, c.want)
		}
	}
}
