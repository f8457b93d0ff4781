package media

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"latentbeam/schemas"
)

var update = flag.Bool("update", false, "rewrite testdata/shown.json from ffmpeg's output")

const goldenFile = "testdata/shown.json"

// shown holds the SHA-256 of an mp4, and of the frames that ffmpeg decoded from it to yuv420p and this package converted to RGB.
type shown struct {
	File   string `json:"file"`
	Frames string `json:"frames"`
}

// TestReconIsWhatFFmpegShowed needs no ffmpeg: the encoder writes the files that ffmpeg decoded when the digests were recorded, and Recon
// has the frames of ffmpeg.
func TestReconIsWhatFFmpegShowed(t *testing.T) {
	table := map[string]shown{}
	if !*update {
		data, err := os.ReadFile(goldenFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &table); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*schemas.Clip{
		testClip(64, 64, 16, 8, false), testClip(64, 64, 16, 8, true), testClip(34, 50, 60, 23.976, false),
		testClip(96, 48, 51, 24, false), testClip(16, 16, 2, 30, false),
	} {
		for _, qp := range []int{8, 20, 28, 44} {
			start := c.Frames[0][:3]
			name := fmt.Sprintf("%dx%dx%d qp %d, starts %x", c.Width, c.Height, len(c.Frames), qp, start)
			out := mustEncode(t, "embedded", Options{QP: qp}, c)
			if *update {
				frames := asPlayer(t, decodeFile(t, out.Data, "yuv420p"), c.Width, c.Height)
				table[name] = shown{digest(out.Data), digest(frames...)}
			}
			got := shown{digest(out.Data), digest(out.Recon.Frames...)}
			if want := table[name]; got != want {
				t.Errorf("%s:\n got %v\nwant %v\nif the change is intended, run go test -update on a host with ffmpeg", name, got, want)
			}
		}
	}
	if *update && !t.Failed() {
		data, err := json.MarshalIndent(table, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goldenFile, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
