package vae

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/rng"
)

// seeded is a row of a small clip.
func seeded(frames int) *schemas.PromptRow {
	seed := int64(5)
	return &schemas.PromptRow{Seed: &seed, NumFrames: frames, Height: 16, Width: 24}
}

// TestReencode: the end of a clip is encoded to the latents of its last frames alone, with noise of its own.
func TestReencode(t *testing.T) {
	for _, c := range []struct {
		name                   string
		frames, length, pixels int
	}{{"vae_kl_fp32", 5, 2, 2}, {"vae_v1_2_23frames_fp32", 34, 5, 17}} {
		opened, err := OpenReencoder(modelOf(t, c.name))
		if err != nil {
			t.Fatal(err)
		}
		a, row, be := opened.(reencoder), seeded(c.frames), cpu.New(2)
		cfg := a.Config
		shape, err := cfg.LatentShape(row.NumFrames, row.Height, row.Width)
		if err != nil {
			t.Fatal(err)
		}
		z := &stages.Array{Shape: shape, Data: nntest.Hash("z", 1, shape...)}
		got, err := a.Reencode(t.Context(), be, row, z, 0, c.length)
		if err != nil {
			t.Fatal(err)
		}
		own := stages.NewArray(shape...)
		for i, v := range z.Data {
			own.Data[i] = float32(float64(v) / cfg.Scale)
		}
		model, err := a.On(be)
		if err != nil {
			t.Fatal(err)
		}
		var video []float32
		if err := model.Decode(be, own, c.frames, 4, func(p []float32) { video = append(video, p...) }); err != nil {
			t.Fatal(err)
		}
		size := len(video) / c.frames
		last := Video{Frames: c.pixels, Height: row.Height, Width: row.Width, Pixels: func(dst []float32, first, n int) error {
			copy(dst, video[(c.frames-c.pixels+first)*size:][:n*size])
			return nil
		}}
		draw := func(dst []float32, step uint32, offset uint64) {
			rng.Normals(dst, uint64(*row.Seed), 0, step|reencodeNoise, offset)
		}
		raw, err := model.Encode(be, last, 4, draw)
		if err != nil {
			t.Fatal(err)
		}
		want, err := model.ForDenoiser(be, raw)
		if err != nil {
			t.Fatal(err)
		}
		if got.Shape[1] != c.length || !slices.Equal(got.Data, want.Data) {
			t.Errorf("%s: %v is not what the last %d frames are encoded to", c.name, got.Shape, c.pixels)
		}
		other, err := a.Reencode(t.Context(), be, row, z, 1, c.length)
		if err != nil || slices.Equal(other.Data, got.Data) {
			t.Errorf("%s: two clips are encoded with the same noise, %v", c.name, err)
		}
		if need, err := a.Need(row); err != nil || need < 1 {
			t.Errorf("%s: it needs %d bytes, %v", c.name, need, err)
		}
	}
}

// TestGroups: a clip that cannot continue after whole groups of frames is refused.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name           string
		length, frames int
		want           string
	}{
		{"vae_kl_fp32", 3, 16, ""}, {"vae_v1_2_23frames_fp32", 10, 51, ""},
		{"vae_v1_2_23frames_fp32", 4, 51, "condition_frame_length is 4: give a multiple of 5"},
		{"vae_v1_2_23frames_fp32", 5, 52, "num_frames is 52: clips that continue need a multiple of 17"},
		{"vae_v1_3_33frames_overlap_fp32", 5, 33, ""},
		{"vae_v1_3_33frames_overlap_fp32", 4, 33, "condition_frame_length is 4: give a multiple of 5"},
		{"wan21_9frames_odd", 1, 9, "does not decode groups of frames independently"},
		{"wf_9frames", 1, 9, "does not decode groups of frames independently"},
		{"causal_fixed_9frames", 1, 9, "does not decode groups of frames independently"},
	} {
		m := modelOf(t, c.name)
		a, err := OpenReencoder(m)
		if err != nil {
			t.Fatal(err)
		}
		row := seeded(c.frames)
		nntest.WantError(t, c.name, a.Check(row, c.length), c.want)
		d, err := Spec().New(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		row.Loop, row.ConditionFrameLength = 2, c.length
		nntest.WantError(t, c.name+" decoded", d.Check(row), c.want)
	}
	empty, err := stages.EmbeddedModel("empty", fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReencoder(empty); err == nil {
		t.Error("a model without an autoencoder has one")
	}
}

// TestClipsOf13 decodes a video of three clips: the latents of each clip are appended to those that it continues from, and
// decoded as one video.
func TestClipsOf13(t *testing.T) {
	s := opened(t, Spec(), modelOf(t, "vae_v1_3_33frames_overlap_fp32")).(*decodeStage)
	row, be := seeded(33), cpu.New(2)
	row.Loop, row.ConditionFrameLength, row.FPS = 3, 5, 24
	shape, err := s.Config.ShapeOf(row)
	if err != nil {
		t.Fatal(err)
	}
	groups := make([]*stages.Array, 4) // of 5 latent frames; a clip has two, the second is the first of the next
	for i := range groups {
		s := []int{shape[0], 5, shape[2], shape[3]}
		groups[i] = &stages.Array{Shape: s, Data: nntest.Hash(fmt.Sprint("group", i), 1, s...)}
	}
	behind := func(parts ...int) *stages.Array {
		out := stages.NewArray(shape[0], 5*len(parts), shape[2], shape[3])
		n := 5 * shape[2] * shape[3]
		for c := range shape[0] {
			for i, g := range parts {
				copy(out.Data[(c*len(parts)+i)*n:][:n], groups[g].Data[c*n:][:n])
			}
		}
		return out
	}
	e := &stages.Element{Row: *row, Latents: behind(0, 1, 1, 2, 2, 3), LatentScale: 1}
	if err := s.Run(t.Context(), be, []*stages.Element{e}); err != nil || e.Failed != nil {
		t.Fatal(err, e.Failed)
	}
	row.Loop, row.NumFrames = 1, 65
	one := &stages.Element{Row: *row, Latents: behind(0, 1, 2, 3), LatentScale: 1}
	if err := s.Run(t.Context(), be, []*stages.Element{one}); err != nil || one.Failed != nil {
		t.Fatal(err, one.Failed)
	}
	if len(e.Frames.Frames) != 65 || !slices.EqualFunc(e.Frames.Frames, one.Frames.Frames, bytes.Equal) {
		t.Errorf("%d frames, or not those of one video", len(e.Frames.Frames))
	}
}

// TestReference: images and videos become latents of the row's size, each file once for each time it is named, and a file
// that cannot be read fails only its own row.
func TestReference(t *testing.T) {
	dir := t.TempDir()
	picture := filepath.Join(dir, "a.png")
	img := image.NewRGBA(image.Rect(0, 0, 9, 7))
	for i := range img.Pix {
		img.Pix[i] = byte(37 * i)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	video := bytes.NewBufferString("YUV4MPEG2 W8 H8 F24:1\n")
	for i := range 40 {
		fmt.Fprintf(video, "FRAME\n%s", bytes.Repeat([]byte{byte(3 * i)}, 96))
	}
	for name, data := range map[string][]byte{"a.png": file.Bytes(), "v.y4m": video.Bytes(), "bad.png": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, frames := range map[string][2]int{ // latent frames of the picture and of 40 frames
		"vae_kl_fp32": {1, 40}, "vae_v1_2_23frames_fp32": {1, 12}, "vae_v1_3_33frames_overlap_fp32": {1, 10},
	} {
		s, err := Reference().New(modelOf(t, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		element := func(reference string) *stages.Element {
			row := seeded(17)
			row.Reference = reference
			if err := s.Check(row); err != nil {
				t.Fatal(err)
			}
			return &stages.Element{Row: *row}
		}
		v := filepath.Join(dir, "v.y4m")
		batch := []*stages.Element{element(""), element(picture + ";" + v + ";" + picture),
			element(filepath.Join(dir, "bad.png")), element(picture)}
		if err := s.Run(context.Background(), cpu.New(2), batch); err != nil {
			t.Fatal(err)
		}
		refs := batch[1].References
		if len(refs) != 3 || refs[0].Shape[1] != frames[0] || refs[1].Shape[1] != frames[1] {
			t.Fatalf("%s: %d references", name, len(refs))
		}
		if slices.Equal(refs[0].Data, refs[2].Data) || !slices.Equal(refs[0].Data, batch[3].References[0].Data) {
			t.Errorf("%s: the noise of a reference depends on something else than its place", name)
		}
		if batch[0].References != nil || batch[0].Failed != nil {
			t.Errorf("%s: a row without reference: %v", name, batch[0].Failed)
		}
		if f := batch[2].Failed; f == nil || f.Stage != "encode_reference" {
			t.Errorf("%s: a damaged image: %v", name, f)
		}
	}
}
