package vae

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// movie writes a y4m file of even sides whose pixels are the hash of their places, but for its last lost bytes, and returns
// its path.
func movie(t *testing.T, frames, height, width, lost int) string {
	t.Helper()
	size := height * width * 3 / 2
	data := fmt.Appendf(nil, "YUV4MPEG2 W%d H%d F8:1\n", width, height)
	for i := range frames {
		data = append(data, "FRAME\n"...)
		for _, v := range nntest.Hash(fmt.Sprint("frame", i), 1, size) {
			data = append(data, byte(128+100*v))
		}
	}
	path := filepath.Join(t.TempDir(), "movie.y4m")
	if err := os.WriteFile(path, data[:len(data)-lost], 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEncodeSets: latents are the same for any number of devices that encode a clip. Other ranks do not wait for rows whose
// file cannot be read, or whose latents are known.
func TestEncodeSets(t *testing.T) {
	for _, k := range []struct {
		name, dt    string
		frames, odd int
		sample      bool
	}{{"wan21_9frames_odd", "fp32", 9, 2, true}, {"wan21_9frames_odd", "bf16", 5, 0, false}, {"wan22_9frames", "fp32", 5, 0, false},
		{"wan22_9frames", "bf16", 9, 0, true}, {"wf_9frames", "fp32", 9, 0, false}} {
		c := componentOf(t, k.name, k.dt)
		d := c.Config.Downscale()
		row := schemas.PromptRow{NumFrames: k.frames, Height: 5*d + k.odd, Width: 3 * d, FPS: 8, Seed: new(int64)}
		good := movie(t, row.NumFrames, row.Height, row.Width, 0)
		elements := func() (out []*stages.Element) {
			for _, path := range []string{good, good + ".gone", good, movie(t, row.NumFrames, row.Height, row.Width, 9)} {
				row := row
				row.Media = path
				out = append(out, &stages.Element{Row: row})
			}
			return out
		}
		stage := func() *encodeStage { return &encodeStage{component: c, micro: 1, sample: k.sample, recent: &recent{}} }
		want, s := elements(), stage()
		if s.Width(&row) != 0 {
			t.Errorf("%s: a set has %d devices", k.name, s.Width(&row))
		}
		if err := s.Run(t.Context(), cpu.New(1), want); err != nil || want[0].Failed != nil || want[1].Failed == nil ||
			want[3].Failed == nil {
			t.Fatal(err, want[0].Failed, want[1].Failed, want[3].Failed)
		}
		for _, speeds := range [][]float64{sequence.Equal(2), sequence.Equal(3), {0.01, 0.02, 3}, sequence.Equal(5), sequence.Equal(7)} {
			got := elements()
			if err := stage().RunSet(t.Context(), setOf(speeds), got); err != nil {
				t.Fatalf("%s over %v: %v", k.name, speeds, err)
			}
			for i, e := range got {
				if (e.Failed == nil) != (want[i].Failed == nil) {
					t.Errorf("%s over %v: element %d failed with %v, alone %v", k.name, speeds, i, e.Failed, want[i].Failed)
				} else if e.Failed == nil && !slices.Equal(e.Latents.Data, want[i].Latents.Data) {
					t.Errorf("%s in %s over %v: element %d has other latents", k.name, k.dt, speeds, i)
				}
			}
		}
	}
}
