package sampler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// goldenRun is one run of a reference sampler over the toy network that testdata/golden/sampler.json describes.
type goldenRun struct {
	Version    string
	Shape      []int // (n, C, T, H, W)
	Steps      int
	Guidance   float32
	CFGChannel *int `json:"cfg_channel"`
	Height     int
	Width      int
	NumFrames  int `json:"num_frames"`
	BF16       bool
	Masks      [][]float32
	Image      *struct {
		MaskIndex   []int   `json:"mask_index"`
		Scale       float32 `json:"image_cfg_scale"`
		SDEdit      bool    `json:"use_sdedit"`
		Oscillation bool    `json:"image_oscillation"`
	}
	Timesteps []float32
	Generated [][][]int
	Out       []float32
}

// TestGolden runs the samplers of all versions against the reference's own.
func TestGolden(t *testing.T) {
	cases := nntest.Golden(t, "../../../testdata/golden/sampler.json")
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			var c goldenRun
			nntest.Decode(t, cases[name], &c)
			c.check(t, name)
		})
	}
}

func (c *goldenRun) check(t *testing.T, name string) {
	b, noise := c.batch(name)
	toy := &toyNetwork{batch: b}
	z := nntest.Hash("noise.init", 1.7, c.Shape...)
	if err := c.sampler(t).Sample(t.Context(), b, z, toy.evaluate, noise, nil); err != nil {
		t.Fatal(err)
	}
	c.compare(t, z, toy)
}

// batch is what the run samples, with its noise.
func (c *goldenRun) batch(name string) (Batch, Noise) {
	n, frames := c.Shape[0], c.Shape[2]
	b := Batch{N: n, Channels: c.Shape[1], Frames: frames, Size: frames * c.Shape[3] * c.Shape[4],
		Guidance: slices.Repeat([]float32{c.Guidance}, n), Masks: slices.Concat(c.Masks...)}
	if c.Image != nil {
		b.Image = &Image{Latents: nntest.Hash("cond", 1, c.Shape...), Given: make([]bool, frames),
			Scale: c.Image.Scale, Oscillate: c.Image.Oscillation, Renoise: c.Image.SDEdit,
			Ramp: name != "v1_3_image_plain"}
		for i := range b.Image.Latents {
			if at := i / (c.Shape[3] * c.Shape[4]) % frames; !slices.Contains(c.Image.MaskIndex, at) {
				b.Image.Latents[i] = 0
			} else {
				b.Image.Given[at] = true
			}
		}
	}
	return b, func(d Draw, element int, dst []float32) {
		kind := "noise"
		if d.Given {
			kind = "given"
		}
		all := nntest.Hash(fmt.Sprintf("%s.%d", kind, d.Step), 1.7, n*len(dst))
		copy(dst, all[element*len(dst):])
	}
}

func (c *goldenRun) sampler(t *testing.T) Sampler {
	t.Helper()
	recipe, err := OpenSora(c.Version)
	if err != nil {
		t.Fatal(err)
	}
	if c.Version == "1.1" {
		recipe.GuidedChannels = 0
	}
	if c.CFGChannel != nil {
		recipe.GuidedChannels = *c.CFGChannel
	}
	s, err := recipe.New(c.Steps, VideoSize{Height: c.Height, Width: c.Width, Frames: c.NumFrames, BF16: c.BF16})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *goldenRun) compare(t *testing.T, z []float32, toy *toyNetwork) {
	diff, largest := nntest.MaxDiff(z, c.Out)
	t.Logf("largest difference %.2g of %.3g", diff, largest)
	if diff > 2e-5*largest {
		t.Errorf("differs by %g from the reference", diff)
	}
	if at, _ := nntest.MaxDiff(toy.timesteps, c.Timesteps); at > 1e-4 {
		t.Errorf("timesteps %v, want %v", toy.timesteps, c.Timesteps)
	}
	for step, want := range c.Generated {
		for i, g := range slices.Concat(want...) {
			if got := toy.generated[step] == nil || toy.generated[step][i]; got != (g == 1) {
				t.Errorf("step %d: frame %d of the batch is generated: %v, want %v", step, i, got, g == 1)
			}
		}
	}
}

// toyNetwork is the network of testdata/golden/sampler.json.
type toyNetwork struct {
	batch     Batch
	timesteps []float32
	generated [][]bool
}

func (n *toyNetwork) evaluate(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
	n.timesteps = append(n.timesteps, timesteps[0])
	n.generated = append(n.generated, slices.Clone(generated))
	width := len(rows) / len(timesteps)
	out := make([]float32, 2*len(rows))
	area := n.batch.Size / n.batch.Frames
	for i, x := range rows {
		row, at := i/width, i%width
		branch, element := row/n.batch.N, row%n.batch.N
		label := float32(element + 1)
		if branch > 0 {
			label = -label
		}
		u, m := timesteps[row]/1000, float32(1)
		if generated != nil && !generated[row*n.batch.Frames+at/area%n.batch.Frames] {
			m = 0
		}
		e := float32(x*u)*(label*0.0625+1) + (m-1)*0.125
		if image := n.batch.Image; image != nil && branch < 2 {
			e += image.Latents[element*width+at] * 0.25
		}
		out[2*row*width+at], out[(2*row+1)*width+at] = e, u*0.5-m*0.25+label*0.0625
	}
	return out, nil
}
