package media

import (
	"encoding/json"
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

// TestToneMapperMatchesFFmpeg compares pixels with ffmpeg's own filters.
func TestToneMapperMatchesFFmpeg(t *testing.T) {
	text, err := os.ReadFile("testdata/tonemap.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for transfer, mapper := range toneMappers {
		var pixels [][6]int
		if err := json.Unmarshal(all[transfer], &pixels); err != nil {
			t.Fatal(err)
		}
		sum, most := 0.0, 0
		for _, p := range pixels {
			var got [3]byte
			mapper().pixel(got[:], uint16(p[0]), uint16(p[1]), uint16(p[2]))
			for c, v := range got {
				d := max(int(v)-p[3+c], p[3+c]-int(v))
				sum, most = sum+float64(d), max(most, d)
				if d > 2 {
					t.Errorf("%s: %v is %v", transfer, p, got)
				}
			}
		}
		if mean := sum / float64(3*len(pixels)); mean > 0.1 || len(pixels) < 100 {
			t.Errorf("%s: %d pixels differ by %.3f in the mean, %d at most", transfer, len(pixels), mean, most)
		}
	}
}

// TestHighRange: PQ is detected from the container or the stream of a video. The video has a reading, and is kept, converted or an error,
// as the job says. Only converted frames have another digest.
func TestHighRange(t *testing.T) {
	needTools(t)
	for _, name := range []string{"a.mkv", "a.mp4"} {
		path := filepath.Join(t.TempDir(), name)
		out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=c=gray:d=1:s=64x48:r=8,format=yuv420p10le",
			"-c:v", "libx264", "-threads", "1", "-color_trc", "smpte2084", "-color_primaries", "bt2020", "-colorspace", "bt2020nc", "-color_range", "tv",
			path).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		digest, err := Digest(t.Context(), path)
		if err != nil || !strings.HasSuffix(digest, highRange+PQ) {
			t.Fatalf("%q, %v", digest, err)
		}
		if kept, mapped := AsRead(digest, schemas.HDRKeep), AsRead(digest, schemas.HDRTonemap); strings.Contains(kept, "hdr") ||
			mapped != kept+" tonemap=pq/1" {
			t.Errorf("keys have %q and %q", kept, mapped)
		}
		first := func(hdr string) (value float32, readings map[string]string, err error) {
			f, err := OpenFrames(t.Context(), path, 4, 8, 48, 64, Rules{HDR: hdr})
			if err != nil {
				return 0, nil, err
			}
			defer f.Close()
			dst := make([]float32, 48*64*3)
			err = errors.Join(f.At(dst, 0), f.At(dst, 3))
			return dst[0], f.Readings(), err
		}
		kept, readings, err := first("")
		if err != nil || fmt.Sprint(readings) != "map[transfer:16]" {
			t.Errorf("kept: %v, %v", readings, err)
		}
		mapped, readings, err := first(schemas.HDRTonemap)
		if err != nil || fmt.Sprint(readings) != "map[transfer:16]" {
			t.Errorf("tone-mapped: %v, %v", readings, err)
		}
		var want [3]byte // grey of 0.5 in PQ is 92 cd/m2
		toneMappers[PQ]().pixel(want[:], 126<<8, 128<<8, 128<<8)
		if d := math.Abs(float64(mapped - levels[want[0]])); d > 0.04 || mapped == kept {
			t.Errorf("grey is %v, tone-mapped %v, want %v", kept, mapped, levels[want[0]])
		}
		if _, _, err := first(schemas.HDRFail); err == nil || !strings.Contains(err.Error(), "high dynamic range (pq)") || errors.Is(err, io.EOF) {
			t.Errorf("refused: %v", err)
		}
	}
}
