package score

import (
	"encoding/json"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"latentbeam/schemas"
)

// made is a clip of testdata/make_quality.py with what the programs that define the measures read off it.
type made struct {
	Height, Width, Frames, Cut, Bar, Kind int

	SceneCuts    int     `json:"scene_cuts"`
	SceneChange  float64 `json:"scene_change"`
	Luminance    float64
	Motion       float64
	Sharpness    float64
	BlackRows    int    `json:"black_rows"`
	BlackColumns int    `json:"black_columns"`
	Hash         string `json:"phash"`
}

type goldens struct {
	Clips []made
	CRC   uint32 `json:"hsv_crc32"`
}

func golden(t *testing.T) (g goldens) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/golden/quality.json")
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// at fills dst with frame t of the clip, in [-1, 1].
func (c made) at(dst []float32, t int) error {
	for i := range dst {
		y, x, ch := i/3/c.Width, i/3%c.Width, i%3
		smooth, other := x*3+y*2*(ch+1)+t*5+x*y/37*3, (x/4)*(y/3)*(ch+2)+40*ch+3*t
		v := other
		if (t >= c.Cut) == (c.Kind == 0) {
			v = smooth
		}
		if y < c.Bar || y >= c.Height-c.Bar || x >= c.Width-c.Bar/2 {
			v = (x + y + t) % 23
		}
		if c.Kind == 2 {
			v = 77
		}
		dst[i] = (float32(v%256)/255 - 0.5) / 0.5
	}
	return nil
}

// measured takes all readings without weights off a clip.
func measured(t *testing.T, c made) map[string]string {
	t.Helper()
	all, err := openMeasures(&options{By: withoutWeights, CutThreshold: 27, BlackLevel: 24})
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, c.Height*c.Width*3)
	got, err := measureClip(t.Context(), nil, all, clip{frames: c.Frames, height: c.Height, width: c.Width}, func(rgb []byte, i int) error {
		err := c.at(values, i)
		for k, v := range values {
			rgb[k] = level(v)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, g := range got {
		maps.Copy(out, g)
	}
	return out
}

// TestMeasures compares every measure with the program that defines it: PySceneDetect 0.7, OpenCV 5, ImageHash 4.3 and
// Pillow. Readings have four decimals.
func TestMeasures(t *testing.T) {
	for _, c := range golden(t).Clips {
		got := measured(t, c)
		for name, want := range map[string]float64{sceneChange: c.SceneChange, luminanceName: c.Luminance, motionName: c.Motion,
			sharpnessName: c.Sharpness} {
			v, err := strconv.ParseFloat(got[name], 64)
			if err != nil || math.Abs(v-want) > 6e-5 || !strings.Contains(got[name], ".") {
				t.Errorf("%+v: %s is %q (%v), want %v", c, name, got[name], err, want)
			}
		}
		for name, want := range map[string]int{sceneCuts: c.SceneCuts, blackRows: c.BlackRows, blackColumns: c.BlackColumns} {
			if got[name] != strconv.Itoa(want) {
				t.Errorf("%+v: %s is %q, want %d", c, name, got[name], want)
			}
		}
		if got[Hash] != c.Hash {
			t.Errorf("%+v: the hash is %s, want %s", c, got[Hash], c.Hash)
		}
		named := slices.DeleteFunc(slices.Clone(Quality().Readings), schemas.ZeroReading)
		if len(got) != len(named) {
			t.Errorf("%d readings, the stage names %d", len(got), len(named))
		}
	}
}

// TestColours compares 636,056 colours with OpenCV's hue, saturation and value.
func TestColours(t *testing.T) {
	var rgb []byte
	for r := 0; r < 256; r += 3 {
		for g := 0; g < 256; g += 3 {
			for b := 0; b < 256; b += 3 {
				rgb = append(rgb, byte(r), byte(g), byte(b))
			}
		}
	}
	n := len(rgb) / 3
	all := make([]byte, 3*n)
	toHSV(all[:n], all[n:2*n], all[2*n:], rgb)
	if got := crc32.ChecksumIEEE(all); got != golden(t).CRC {
		t.Errorf("checksum %d, want %d", got, golden(t).CRC)
	}
}

// TestBars: a line is a bar only if it is black in every frame.
func TestBars(t *testing.T) {
	b := &bars{level: 24}
	for _, top := range []byte{200, 0, 0} {
		grey := []byte{top, top, top, 0, 99, 0, 0, 99, 0, 9, 9, 9}
		b.add(frame{width: 3, height: 4, grey: grey})
	}
	got := map[string]string{}
	b.read(got)
	if got[blackRows] != "1" || got[blackColumns] != "0" {
		t.Errorf("%v, want one row and no column", got)
	}
}
