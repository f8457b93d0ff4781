package media

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/schemas"
)

// TestScan: a decoding error counts if a frame between it and the next key frame is used. Errors before the first key frame of a file that
// starts in the middle of a video do not count.
func TestScan(t *testing.T) {
	frame := func(n int) string {
		return fmt.Sprintf("[Parsed_showinfo_0 @ 0x55d1] [info] n: %3d pts: %6d pts_time:%-7g pos:   100 fmt:yuv420p i:P iskey:%d type:P checksum:X\n",
			n, n*512, float64(n)/10, map[bool]int{true: 1}[n%24 == 0])
	}
	const damage = "[h264 @ 0x55d2] [error] error while decoding MB 3 4, bytestream -5\n"
	for _, c := range []struct {
		name         string
		before       map[int]string // output of ffmpeg before a frame, by its number
		start, count int
		want         Damage
	}{
		{"no damage", nil, 0, 48, Damage{}},
		{"in the clip", map[int]string{30: damage + damage}, 24, 10, Damage{2, true, "[h264] error while decoding MB 3 4, bytestream -5"}},
		{"before the clip, in its group", map[int]string{26: damage}, 40, 8, Damage{1, true, ""}},
		{"before the clip's group", map[int]string{5: damage}, 24, 8, Damage{1, false, ""}},
		{"shortly before the clip's group", map[int]string{22: damage}, 24, 8, Damage{1, true, ""}},
		{"after the clip", map[int]string{30: damage}, 0, 24, Damage{1, false, ""}},
		{"at the end", map[int]string{48: damage}, 24, 24, Damage{1, true, ""}},
		{"no key frame at the start", map[int]string{0: "[h264 @ 0x1] [error] non-existing PPS 0 referenced\n[h264 @ 0x1] [error] no frame!\n"}, 0, 8,
			Damage{2, false, ""}},
		{"a damaged key frame at the start", map[int]string{0: damage}, 0, 8, Damage{1, true, ""}},
		{"damaged sound only", map[int]string{3: "[aac @ 0x1] [error] Input buffer exhausted before END element found\n"}, 0, 8, Damage{}},
		{"no decoder", map[int]string{3: "Error while decoding stream #0:0: Invalid data\n[error] Error while decoding stream #0:0: Invalid data\n"}, 0, 8,
			Damage{1, true, ""}},
	} {
		s := &scan{origin: math.NaN(), enough: func(shownFrame, int) bool { return false }}
		for i := range 49 {
			text := c.before[i]
			if i < 48 {
				text += frame(i)
			}
			for _, b := range []byte(text) { // in any pieces
				_, _ = s.Write([]byte{b})
			}
		}
		got := s.damage(func(n int, f shownFrame) bool {
			return n >= c.start && n < c.start+c.count && f.time >= float64(c.start)/10-1e-9
		})
		if c.want.first == "" {
			got.first = ""
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestDamagedVideo: damage in a group of frames fails exactly the clips that use the group, wherever reading starts. If the job keeps
// damaged frames, their errors are counted.
func TestDamagedVideo(t *testing.T) {
	needTools(t)
	good := filepath.Join(t.TempDir(), "good.mp4")
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=d=6:s=128x96:r=10", "-c:v", "libx264", "-g", "20",
		"-bf", "2", "-threads", "1", "-movflags", "+faststart", good).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(data), "mdat")
	for i := at + (len(data)-at)*45/100; i < at+(len(data)-at)*50/100; i++ { // in the second group of three
		data[i] ^= byte(i*i + 91)
	}
	path := write(t, "damaged.mp4", data)
	facts, err := Probe(t.Context(), path, 10)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string, start, n int, keep bool) (readings map[string]string, err error) {
		f, err := OpenCut(t.Context(), path, n, 10, 96, 128, schemas.Cut{Start: start, Count: n, Filter: "bilinear", ScaledHeight: 96,
			ScaledWidth: 128, Seek: facts.Seek(start), Origin: facts.Origin}, Rules{KeepErrors: keep})
		if err != nil {
			return nil, err
		}
		defer f.Close()
		dst := make([]float32, 96*128*3)
		for i := range n {
			if err := f.At(dst, i); err != nil {
				return f.Readings(), err
			}
		}
		return f.Readings(), nil
	}
	for _, c := range []struct {
		path     string
		start, n int
		used     bool
	}{{good, 0, 60, false}, {path, 0, 60, true}, {path, 0, 10, false}, {path, 20, 20, true}, {path, 35, 5, true}, {path, 45, 10, false}} {
		_, err := read(c.path, c.start, c.n, false)
		if used := err != nil && strings.Contains(err.Error(), "decode_errors: keep"); used != c.used || err != nil && !used {
			t.Errorf("%d frames from %d on of %s: %v", c.n, c.start, filepath.Base(c.path), err)
		}
		readings, err := read(c.path, c.start, c.n, true)
		if err != nil || (readings[schemas.ReadingDecodeErrors] == "") == c.used {
			t.Errorf("%d frames from %d on of %s are kept with %v, %v", c.n, c.start, filepath.Base(c.path), readings, err)
		}
	}
	s, err := OpenSource(t.Context(), path, SourceOptions{}) // with the options that read all frames of a reference
	for rgb := make([]byte, 96*128*3); err == nil; {
		err = s.Next(rgb)
	}
	if !strings.Contains(err.Error(), "the video is damaged") || errors.Is(err, io.EOF) {
		t.Errorf("all frames: %v", err)
	}
}
