package media

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/media/h264"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
)

// needTools skips a test if ffmpeg is not installed. TestReconIsWhatFFmpegShowed then tests the same with recorded digests.
func needTools(t *testing.T) {
	t.Helper()
	testaid.Needs(t, "ffmpeg", "ffprobe")
}

// decodeFile decodes a file to raw frames with ffmpeg, which stops at the first error.
func decodeFile(t *testing.T, data []byte, pixelFormat string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clip.mp4")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ffmpeg", "-v", "error", "-xerror", "-err_detect", "explode", "-threads", "1",
		"-i", file, "-f", "rawvideo", "-pix_fmt", pixelFormat, "-fps_mode", "passthrough", "-")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("ffmpeg: %v: %s", err, stderr.String())
	}
	return out
}

// asPlayer converts what ffmpeg decoded to yuv420p with this package's own conversion.
func asPlayer(t *testing.T, yuv []byte, width, height int) [][]byte {
	t.Helper()
	p := h264.NewPicture(width, height)
	size := len(p.Y) + len(p.U) + len(p.V)
	if len(yuv)%size != 0 {
		t.Fatalf("%d bytes are not whole pictures of %d", len(yuv), size)
	}
	var frames [][]byte
	for ; len(yuv) > 0; yuv = yuv[size:] {
		copy(p.Y, yuv)
		copy(p.U, yuv[len(p.Y):])
		copy(p.V, yuv[len(p.Y)+len(p.U):])
		rgb := make([]byte, width*height*3)
		toRGB(rgb, p)
		frames = append(frames, rgb)
	}
	return frames
}

func TestReconIsWhatFFmpegShows(t *testing.T) {
	needTools(t)
	for _, c := range []*schemas.Clip{
		testClip(64, 64, 16, 8, false),
		testClip(34, 50, 30, 23.976, false),
		testClip(250, 98, 5, 24, false),
		testClip(64, 64, 5, 8, true),
	} {
		out := mustEncode(t, "embedded", Options{}, c)
		shown := asPlayer(t, decodeFile(t, out.Data, "yuv420p"), c.Width, c.Height)
		if largest, _ := maxDifference(shown, out.Recon.Frames); len(shown) != len(c.Frames) || largest != 0 {
			t.Errorf("%dx%d: %d frames, difference %d", c.Width, c.Height, len(shown), largest)
		}
		rgb := decodeFile(t, out.Data, "rgb24")
		var frames [][]byte
		for size := c.Width * c.Height * 3; len(rgb) >= size; rgb = rgb[size:] {
			frames = append(frames, rgb[:size])
		}
		largest, mean := maxDifference(frames, out.Recon.Frames)
		t.Logf("%dx%d: ffmpeg's RGB differs by at most %d, by %.3f in the mean", c.Width, c.Height, largest, mean)
		if largest > 4 || mean > 1.5 { // its fast path truncates
			t.Errorf("%dx%d: RGB by ffmpeg differs by %d, %.3f in the mean", c.Width, c.Height, largest, mean)
		}
	}
}

// probe holds the facts that ffprobe reports about a video stream.
type probe struct {
	Streams []struct {
		CodecName     string `json:"codec_name"`
		Profile       string `json:"profile"`
		Width, Height int
		PixFmt        string `json:"pix_fmt"`
		ColorRange    string `json:"color_range"`
		ColorSpace    string `json:"color_space"`
		ColorTransfer string `json:"color_transfer"`
		ColorPrimary  string `json:"color_primaries"`
		FrameRate     string `json:"r_frame_rate"`
		AverageRate   string `json:"avg_frame_rate"`
		ReadFrames    string `json:"nb_read_frames"`
		Duration      string `json:"duration"`
	}
}

func probeFile(t *testing.T, data []byte) probe {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clip.mp4")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_streams", "-of", "json", file)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ffprobe: %v", err)
	}
	var p probe
	if err := json.Unmarshal(out, &p); err != nil || len(p.Streams) != 1 {
		t.Fatalf("ffprobe: %v: %s", err, out)
	}
	return p
}

func TestFFprobeReadsTheFile(t *testing.T) {
	needTools(t)
	for _, name := range Encoders("h264") {
		for _, f := range []struct {
			fps  float64
			rate string
		}{{8, "8/1"}, {23.976, "24000/1001"}, {29.97, "30000/1001"}, {12.5, "25/2"}} {
			out := mustEncode(t, name, Options{GOP: 5}, testClip(66, 34, 12, f.fps, false))
			s := probeFile(t, out.Data).Streams[0]
			got := fmt.Sprint(s.CodecName, s.Width, s.Height, s.PixFmt, s.ReadFrames,
				s.FrameRate, s.AverageRate, s.ColorRange, s.ColorSpace, s.ColorTransfer, s.ColorPrimary)
			want := fmt.Sprint("h264", 66, 34, "yuv420p", "12",
				f.rate, f.rate, "tv", "smpte170m", "bt709", "bt709")
			if got != want {
				t.Errorf("%s at %v fps: %s, want %s", name, f.fps, got, want)
			}
			if name == "h264" && s.Profile != "Constrained Baseline" {
				t.Errorf("profile %q", s.Profile)
			}
		}
	}
}

func TestFFmpegEncoder(t *testing.T) {
	needTools(t)
	c := testClip(64, 64, 16, 8, false)
	out := mustEncode(t, "ffmpeg", Options{}, c)
	if again := mustEncode(t, "ffmpeg", Options{}, c); !bytes.Equal(out.Data, again.Data) {
		t.Error("the same clip gave other bytes the second time")
	}
	shown := asPlayer(t, decodeFile(t, out.Data, "yuv420p"), 64, 64)
	if _, mean := maxDifference(shown, c.Frames); mean > 4 {
		t.Errorf("colours are off by %.2f in the mean", mean)
	}
	moov, mdat := bytes.Index(out.Data, []byte("moov")), bytes.Index(out.Data, []byte("mdat"))
	if moov > mdat {
		t.Errorf("moov at %d comes after mdat at %d", moov, mdat)
	}
	e, err := New("h264", "ffmpeg", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Encode(context.Background(), testClip(63, 64, 2, 8, false)); err == nil ||
		!strings.Contains(err.Error(), "62x64") {
		t.Errorf("odd width: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := e.Encode(ctx, testClip(512, 512, 40, 8, true)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
}

func TestFFmpegErrorsSayWhy(t *testing.T) {
	if _, err := New("h264", "ffmpeg", Options{FFmpeg: "no-such-ffmpeg"}); err == nil ||
		!strings.Contains(err.Error(), "install it") {
		t.Errorf("missing program: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "ffmpeg")
	script := "#!/bin/sh\necho Unknown encoder libx264 >&2\nexit 1\n"
	if err := os.WriteFile(broken, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New("h264", "ffmpeg", Options{FFmpeg: broken}); err == nil ||
		!strings.Contains(err.Error(), "Unknown encoder libx264") {
		t.Errorf("broken program: %v", err)
	}
}
