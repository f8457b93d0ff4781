package vae

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"

	"latentbeam/stages/vae/opensora/temporal"
	"latentbeam/stages/weights"
)

// temporalCase is a case of VAE_Temporal alone.
type temporalCase struct {
	Config       temporal.Config `json:"config"`
	Input        string          `json:"input"`        // H("input.vae", (1, c, T, h, w), 1.0)
	LatentInput  string          `json:"latent_input"` // latents to decode; "": the latent mean
	MeanShape    []int           `json:"latent_mean_shape"`
	MeanStride   int             `json:"latent_mean_stride"`
	Mean         []float32       `json:"latent_mean"`
	DecodeFrames int             `json:"decode_num_frames"`
	DecodeShape  []int           `json:"decode_shape"`
	DecodeStride int             `json:"decode_stride"`
	Decode       []float32       `json:"decode"`
}

func TestTemporalMatchesReference(t *testing.T) {
	cases := nntest.Golden(t, "../../testdata/golden/open-sora-vae.json")
	maps.Copy(cases, nntest.OpenSora(t, "../../testdata/golden/open-sora.json"))
	found := 0
	for name, data := range cases {
		if !strings.HasPrefix(name, "vae_temporal_") {
			continue
		}
		found++
		t.Run(name, func(t *testing.T) { testTemporal(t, data) })
	}
	if found == 0 {
		t.Skip("no case of the temporal autoencoder in this file")
	}
}

func testTemporal(t *testing.T, data json.RawMessage) {
	c := temporalCase{Config: temporal.New(), MeanStride: 1, DecodeStride: 1}
	nntest.Decode(t, data, &c)
	if err := c.Config.Validate(); err != nil {
		t.Fatal(err)
	}
	be := cpu.New(2)
	names := weights.ShapesOnly()
	temporal.Load(names, &c.Config)
	w := weights.NewWeights(be, nntest.File(t, names.Requested()))
	m := temporal.Load(w, &c.Config)
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	e := c.Config.EmbedDim
	p := &openSora12{temporal: m, openSora12Config: &openSora12Config{VAETemporal: c.Config, MicroFrameSize: 1 << 10}}
	p.VAE2D.LatentChannels = c.Config.InOutChannels

	x := framesLast(hashInput(t, c.Input)) // (T, h, w, c)
	n, h, width := x.Shape[0], x.Shape[1], x.Shape[2]
	moments, err := p.encodeTime(be, x.Data, n, h, width)
	if err != nil {
		t.Fatal(err)
	}
	q := Posterior{Latents: stages.NewArray(e, p.latentFrames(n), h, width)}
	q.Sample(moments, 0, p.latentFrames(n))
	golden := goldenCase{}
	golden.check(t, "mean", q.Latents.Data, c.MeanStride, c.Mean, 0)

	var z *stages.Array
	if c.LatentInput != "" {
		z = framesLast(hashInput(t, c.LatentInput))
	} else {
		z = framesLast(&stages.Array{Shape: c.MeanShape[1:], Data: c.Mean})
	}
	up := be.Alloc(kernels.F32, 1, z.Shape[0], h, width, e)
	be.Upload(up, z.Data)
	out := stages.NewArray(c.DecodeFrames, h, width, c.Config.InOutChannels)
	if err := be.Download(out.Data, m.Decode(be, up, c.DecodeFrames)); err != nil {
		t.Fatal(err)
	}
	got := channelsFirst(out)
	if !slices.Equal(got.Shape, c.DecodeShape[1:]) {
		t.Errorf("decoded shape %v, want %v", got.Shape, c.DecodeShape)
	}
	golden.check(t, "decode", got.Data, c.DecodeStride, c.Decode, 0)
}

// hashInput reads an input such as `H("input.vae",(1,4,5,4,6),1.0)`, without its batch axis.
func hashInput(t *testing.T, text string) *stages.Array {
	t.Helper()
	var name string
	var n [5]int
	var amp float64
	clean := strings.NewReplacer("H(", "", "(", " ", ")", " ", ",", " ").Replace(text)
	_, err := fmt.Sscanf(clean, "%q %d %d %d %d %d %g", &name, &n[0], &n[1], &n[2], &n[3], &n[4], &amp)
	if err != nil {
		t.Fatalf("input %q: %v", text, err)
	}
	return &stages.Array{Shape: n[1:], Data: nntest.Hash(name, amp, n[1:]...)}
}
