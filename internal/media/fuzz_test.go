package media

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/internal/media/mp4"
	"latentbeam/schemas"
)

// FuzzY4M: no input makes the reader of y4m panic, and its frames have the size of its header.
func FuzzY4M(f *testing.F) {
	f.Add([]byte("YUV4MPEG2 W4 H2 F8:1 C420\nFRAME\n" + string(make([]byte, 12))))
	f.Add([]byte("YUV4MPEG2 W4 H2 F30000:1001 C444 XCOLORRANGE=FULL\nFRAME\n" + string(make([]byte, 24)) + "FRAME\n"))
	f.Add([]byte("YUV4MPEG2 W3 H3 Cmono Ip A1:1\nFRAME Ip\n123456789"))
	f.Add([]byte("YUV4MPEG2 W1 H1 C422 F0:0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := newY4M(io.NopCloser(bytes.NewReader(data)))
		if err != nil {
			return
		}
		defer s.Close()
		info := s.Info()
		if info.Width < 1 || info.Height < 1 || info.Width*info.Height > maxPixels {
			t.Fatalf("%+v", info)
		}
		if info.Width*info.Height > 1<<20 {
			return // large frames are slow and test nothing more
		}
		if err := s.makeRoom(t.Context(), planesBytes); err != nil {
			t.Fatal(err)
		}
		rgb := make([]byte, info.Width*info.Height*3)
		for n := 0; ; n++ {
			if err := s.Next(rgb); err != nil {
				return
			}
			if n > len(data) {
				t.Fatalf("%d frames in %d bytes", n, len(data))
			}
		}
	})
}

// FuzzImage: no input makes the readers of images panic or exceed the limits of memory.
func FuzzImage(f *testing.F) {
	for _, name := range []string{"triangle.png"} {
		data, err := os.ReadFile(filepath.Join("../../testdata/media", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, true)
	}
	poster, err := Poster(make([]byte, 16*16*3), 16, 16)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(poster, false)
	for _, file := range imagesOfPillow(f) {
		f.Add(file.File, false)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, png bool) {
		if kind, err := formatOf(bytes.NewReader(data)); err != nil || !kind.isImage() {
			return // ffmpeg's
		}
		path := filepath.Join(dir, "image.jpg")
		if png {
			path = filepath.Join(dir, "image.png")
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSource(t.Context(), path, SourceOptions{})
		if err != nil {
			return
		}
		defer s.Close()
		if info := s.Info(); info.Width*info.Height <= 1<<20 {
			_ = s.Next(make([]byte, info.Width*info.Height*3))
		}
	})
}

// FuzzMP4: no input makes the reader of a video's timeline, or the writer of its metadata, panic. Times never decrease.
func FuzzMP4(f *testing.F) {
	enc, err := New("h264", "embedded", Options{})
	if err != nil {
		f.Fatal(err)
	}
	frames := [][]byte{make([]byte, 16*16*3), make([]byte, 16*16*3), make([]byte, 16*16*3)}
	video, err := enc.Encode(f.Context(), &schemas.Clip{Width: 16, Height: 16, FPS: 8, Frames: frames})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(video.Data)
	if err := Describe(video, "a title", "a comment"); err != nil {
		f.Fatal(err)
	}
	f.Add(video.Data)
	path := filepath.Join(f.TempDir(), "video.mp4")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if line, err := mp4.ReadTimeline(path); err == nil {
			countFrames(t, &timeline{Timeline: *line})
		}
		_ = Describe(&schemas.Encoded{Data: data, Ext: ".mp4"}, "a title", "a comment")
	})
}

// countFrames checks that a timeline is invalid, or has at least one frame and keyframes in ascending order.
func countFrames(t *testing.T, line *timeline) {
	if line.check() != nil {
		return
	}
	f, before := line.facts(24), 0
	for _, k := range f.Keys {
		if k.Frame < before {
			t.Fatalf("keyframe %d behind %d", k.Frame, before)
		}
		before = k.Frame
	}
	if f.Frames < 1 {
		t.Fatalf("%d frames of %+v", f.Frames, line)
	}
}

// FuzzProbe: no output of ffprobe gives a timeline whose frames cannot be counted.
func FuzzProbe(f *testing.F) {
	f.Add([]byte(`{"streams": [{"width": 16, "height": 8, "avg_frame_rate": "24/1", "side_data_list": [{"rotation": -90}]}],
		"packets": [{"pts_time": "0.5", "duration_time": "0.04", "flags": "K__"}, {"pts_time": "0.54", "flags": "_D_"}, {"pts_time": "N/A"}],
		"format": {"format_name": "matroska,webm"}}`))
	f.Add([]byte(`{"streams": [{}], "packets": [{"pts_time": "-1e300"}, {"pts_time": "NaN"}, {"pts_time": "1e18", "duration_time": "Inf"}]}`))
	f.Add([]byte(`{"streams": [{}], "format": {"format_name": "mov"},
		"packets": [{"pts_time": "0", "flags": "K"}, {"pts_time": "1e6", "flags": "K"}, {"pts_time": "4e11", "flags": "K"}]}`))
	f.Add([]byte(`{"streams": [], "packets": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if line, err := readProbe(data); err == nil {
			countFrames(t, line)
		}
	})
}
