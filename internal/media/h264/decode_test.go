package h264

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"latentbeam/internal/system/testaid"
)

var update = flag.Bool("update", false, "rewrite testdata/decoded.json from ffmpeg's output")

const goldenFile = "testdata/decoded.json"

// golden holds the digests of the stream of one configuration and of the pictures that ffmpeg decoded from it.
type golden struct {
	Stream  string `json:"stream"`  // SHA-256 of the Annex B stream
	Decoded string `json:"decoded"` // SHA-256 of the yuv420p pictures that ffmpeg decoded from it
}

// goldenTable is testdata/decoded.json.
type goldenTable struct {
	Decoder string            `json:"decoder"`
	Cases   map[string]golden `json:"cases"`
}

type testCase struct {
	scene  scene
	frames int
	Config
}

func (c testCase) name() string {
	return fmt.Sprintf("%s-%dx%d-n%d-gop%d-qp%d", c.scene.name, c.Width, c.Height, c.frames, c.GOP, c.QP)
}

func testCases() (cases []testCase) {
	sizes := [][2]int{{16, 16}, {34, 50}, {250, 98}, {64, 64}, {176, 144}, {2, 2}}
	for _, s := range scenes {
		for k, size := range sizes {
			for _, qp := range []int{1, 4, 10, 20, 28, 36, 43, 51} {
				if (qp == 1 || qp == 43) && k != 3 || size[0] == 176 && qp != 20 {
					continue
				}
				cases = append(cases, testCase{s, 10, Config{
					Width: size[0], Height: size[1], FPSNum: 8, FPSDen: 1, QP: qp, GOP: 4 + 8*(k&1),
				}})
			}
		}
	}
	return cases
}

// encodeCase returns the Annex B stream and the encoder's own pictures.
func encodeCase(t *testing.T, c testCase) (stream, shown []byte) {
	t.Helper()
	size := c.Width * c.Height * 3 / 2
	shown = make([]byte, c.frames*size)
	show := func(i int, p *Picture) {
		out := shown[i*size : i*size : (i+1)*size]
		out = append(append(append(out, p.Y...), p.U...), p.V...)
		if len(out) != size {
			t.Errorf("picture %d has %d bytes, want %d", i, len(out), size)
		}
	}
	s, err := Encode(context.Background(), c.Config, c.frames, c.scene.fill, show)
	if err != nil {
		t.Fatal(err)
	}
	return annexB(s), shown
}

func annexB(s *Stream) []byte {
	var b bytes.Buffer
	for i, sample := range s.Samples {
		nals := [][]byte{sample}
		if s.Key[i] {
			nals = [][]byte{s.SPS, s.PPS, sample}
		}
		for _, n := range nals {
			b.Write([]byte{0, 0, 0, 1})
			b.Write(n)
		}
	}
	return b.Bytes()
}

func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// TestReconstructionIsWhatFFmpegDecoded shows, without ffmpeg, that a player shows the encoder's own pictures: stream and pictures have the
// digests that were recorded when ffmpeg decoded the stream.
func TestReconstructionIsWhatFFmpegDecoded(t *testing.T) {
	table := goldenTable{Cases: map[string]golden{}}
	if data, err := os.ReadFile(goldenFile); err == nil {
		if err := json.Unmarshal(data, &table); err != nil {
			t.Fatal(err)
		}
	} else if !*update {
		t.Fatal(err)
	}
	if *update {
		table = goldenTable{Decoder: ffmpegVersion(t), Cases: map[string]golden{}}
	}
	for _, c := range testCases() {
		stream, shown := encodeCase(t, c)
		if *update {
			table.Cases[c.name()] = golden{digest(stream), digest(ffmpegDecode(t, stream))}
		}
		want, ok := table.Cases[c.name()]
		switch {
		case !ok:
			t.Errorf("%s: not in %s; run go test -update with ffmpeg on PATH", c.name(), goldenFile)
		case digest(stream) != want.Stream:
			t.Errorf("%s: the stream changed; run go test -update with ffmpeg on PATH", c.name())
		case digest(shown) != want.Decoded:
			t.Errorf("%s: the reconstruction is not what ffmpeg decoded", c.name())
		}
	}
	if *update && !t.Failed() {
		data, err := json.MarshalIndent(table, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(goldenFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goldenFile, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFFmpegDecodesTheReconstruction compares byte for byte with the ffmpeg of this machine.
func TestFFmpegDecodesTheReconstruction(t *testing.T) {
	needFFmpeg(t)
	for k, c := range testCases() {
		if k%9 != 0 { // -update compares them all
			continue
		}
		stream, shown := encodeCase(t, c)
		if got := ffmpegDecode(t, stream); !bytes.Equal(got, shown) {
			at := 0
			for at < min(len(got), len(shown)) && got[at] == shown[at] {
				at++
			}
			t.Errorf("%s: %d decoded bytes, %d of our own, first difference in picture %d",
				c.name(), len(got), len(shown), at/(c.Width*c.Height*3/2))
		}
	}
}

func needFFmpeg(t *testing.T) {
	t.Helper()
	testaid.Needs(t, "ffmpeg")
}

func ffmpegVersion(t *testing.T) string {
	out, err := exec.Command("ffmpeg", "-version").Output()
	if err != nil {
		t.Fatalf("ffmpeg -version: %v", err)
	}
	line, _, _ := bytes.Cut(out, []byte(" Copyright"))
	return string(line)
}

func ffmpegDecode(t *testing.T, stream []byte) []byte {
	t.Helper()
	cmd := exec.Command("ffmpeg", "-v", "error", "-xerror", "-err_detect", "explode", "-threads", "1",
		"-f", "h264", "-i", "-", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-fps_mode", "passthrough", "-")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stream), &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("ffmpeg: %v: %s", err, stderr.String())
	}
	return out
}

func TestBytesDoNotDependOnProcessors(t *testing.T) {
	c := testCase{scenes[2], 20, Config{Width: 64, Height: 64, FPSNum: 8, FPSDen: 1, QP: 20, GOP: 3}}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want, _ := encodeCase(t, c)
	for _, procs := range []int{2, 3, 8} {
		runtime.GOMAXPROCS(procs)
		if got, _ := encodeCase(t, c); !bytes.Equal(got, want) {
			t.Errorf("GOMAXPROCS %d gives other bytes than 1", procs)
		}
	}
}
