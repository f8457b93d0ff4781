package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestReaderRefuses: if the reader rejects ffmpeg's output, it stops ffmpeg, even if ffmpeg blocks on a full pipe, and returns the reason.
func TestReaderRefuses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is a shell script")
	}
	const frame = `FRAME\n%049152d`
	for _, c := range []struct{ header, body, want string }{
		{"YUV4MPEG2 W128 H128 F8:1 It C444", frame, "the video is interlaced"}, // interlaced even after the filter
		{"YUV4MPEG2 W20000 H64 F8:1 Ip C444", frame, "frames of 20000x64"},
		{"YUV4MPEG2 W128 H128 F8:1 Ip C420p10", frame, "C420p10"},
		{"YUV4MPEG2 W128 H128 F8:1 Ip C444", frame + `\nnoise%065536d`, "does not begin with FRAME"},
		{"no y4m", frame, "does not begin with YUV4MPEG2"},
	} {
		script := filepath.Join(t.TempDir(), "ffmpeg")
		text := fmt.Sprintf("#!/bin/sh\nprintf '%s\\n'\nwhile :; do printf '%s' 0 0; done\n", c.header, c.body)
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			s, err := OpenSource(t.Context(), write(t, "a.mp4", []byte("x")), SourceOptions{FFmpeg: script})
			for rgb := make([]byte, 3*128*128); err == nil; {
				err = s.Next(rgb)
			}
			if s != nil {
				err = errors.Join(err, s.Close())
			}
			done <- err
		}()
		select {
		case err := <-done:
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.header, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: no error after 20 seconds", c.header)
		}
	}
}

// combed returns a y4m file of n interlaced 4:4:4 frames, in which a bar moves two pixels per field.
func combed(n int, order string) []byte {
	const w, h = 64, 48
	var b bytes.Buffer
	fmt.Fprintf(&b, "YUV4MPEG2 W%d H%d F25:1 I%s A1:1 C444\n", w, h, order)
	for i := range n {
		b.WriteString("FRAME\n")
		for y := range h {
			at := 2 * (2*i + y%2)
			if order == "b" {
				at = 2 * (2*i + 1 - y%2)
			}
			for x := range w {
				b.WriteByte(byte(40 + y + 70*((x+64-at)%64/24)))
			}
		}
		b.Write(bytes.Repeat([]byte{128}, 2*w*h))
	}
	return b.Bytes()
}

// TestInterlaced: interlaced video is deinterlaced by its field order, with one result frame per frame, and with the same result wherever
// reading starts. The expected frames come from ffmpeg's bwdif on its command line.
func TestInterlaced(t *testing.T) {
	needTools(t)
	for _, order := range []string{"t", "b"} {
		path := write(t, "combed.y4m", combed(12, order))
		parity := map[string]string{"t": "tff", "b": "bff"}[order]
		want, err := exec.Command("ffmpeg", "-v", "error", "-i", path, "-vf", "bwdif=send_frame:"+parity+":all", "-f", "rawvideo",
			"-pix_fmt", "yuv444p", "-").Output()
		if err != nil {
			t.Fatal(err)
		}
		mkv := filepath.Join(t.TempDir(), "combed.mkv")
		out, err := exec.Command("ffmpeg", "-v", "error", "-i", path, "-c:v", "ffv1", mkv).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, path := range []string{path, mkv} {
			for _, start := range []int{0, 5} {
				s, err := OpenSource(context.Background(), path, SourceOptions{Window: &Window{Start: start}})
				if err != nil {
					t.Fatal(err)
				}
				if i := s.Info(); i.RateNum != 25*i.RateDen {
					t.Errorf("the frame rate is %d/%d", i.RateNum, i.RateDen)
				}
				rgb := make([]byte, 3*64*48)
				for i := start; i < 12; i++ {
					if err := s.Next(rgb); err != nil {
						t.Fatalf("%s: frame %d from %d on: %v", path, i, start, err)
					}
					for p := range 64 * 48 {
						luma := (float64(rgb[3*p])*219)/255 + 16
						if d := luma - float64(want[3*i*64*48+p]); d < -1 || d > 1 {
							t.Fatalf("%s: frame %d from %d on has luma %.1f at %d,%d, want %d", path, i, start, luma, p%64, p/64,
								want[3*i*64*48+p])
						}
					}
				}
				s.Close()
			}
		}
	}
}
