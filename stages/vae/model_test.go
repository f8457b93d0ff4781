package vae

import (
	"math"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
)

// oldName returns the name that files written before diffusers 0.15 give a tensor.
func oldName(name string) string {
	for today, old := range spellings {
		name = strings.Replace(name, ".attentions.0."+today+".", ".attentions.0."+old+".", 1)
	}
	return name
}

// TestPublishedTensors counts what the config of stabilityai/sd-vae-ft-ema asks for: 83,653,863 parameters.
func TestPublishedTensors(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"block_out_channels":[128,256,512,512],"layers_per_block":2,
		"down_block_types":["DownEncoderBlock2D"],"up_block_types":["UpDecoderBlock2D"],
		"sample_size":256,"_class_name":"AutoencoderKL"}`))
	if err != nil {
		t.Fatal(err)
	}
	shapes := requested(t, cfg)
	elements := 0
	for _, shape := range shapes {
		n := 1
		for _, d := range shape {
			n *= d
		}
		elements += n
	}
	if len(shapes) != 248 || elements != 83653863 {
		t.Errorf("%d tensors of %d elements, want 248 of 83653863", len(shapes), elements)
	}
	for _, name := range []string{"encoder.down_blocks.1.resnets.0.conv_shortcut.weight",
		"decoder.up_blocks.3.resnets.0.conv_shortcut.weight", "decoder.up_blocks.2.upsamplers.0.conv.bias",
		"encoder.down_blocks.2.downsamplers.0.conv.weight", "decoder.mid_block.attentions.0.to_out.0.weight"} {
		if shapes[name] == nil {
			t.Errorf("%s is not asked for", name)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{}`, ""},
		{`{"act_fn":"relu"}`, "act_fn"},
		{`{"block_out_channels":[]}`, "block_out_channels has 0 entries"},
		{`{"block_out_channels":[48]}`, "divisible by norm_num_groups 32"},
		{`{"layers_per_block":0}`, "layers_per_block is 0"},
		{`{"norm_num_groups":0}`, "norm_num_groups is 0"},
		{`{"latent_channels":-1}`, "latent_channels is -1"},
		{`{"down_block_types":["AttnDownEncoderBlock2D"]}`, "AttnDownEncoderBlock2D"},
		{`{"up_block_types":["AttnUpDecoderBlock2D"]}`, "AttnUpDecoderBlock2D"},
		{`{"shift_factor":0.1}`, "shift_factor"},
		{`{"latents_mean":[1,2,3,4]}`, "latents_mean"},
		{`{"latents_mean":null,"shift_factor":null}`, ""},
		{`{"use_quant_conv":false}`, "use_quant_conv"},
		{`{"scaling_factor":0}`, "scaling_factor"},
		{`3`, "parse vae config.json"},
	} {
		_, err := ParseConfig([]byte(c.json))
		nntest.WantError(t, c.json, err, c.want)
	}
}

func TestShapesAreChecked(t *testing.T) {
	cfg, _ := readGolden(t, "one_layer")
	be := cpu.New(1)
	m := hashed(t, cfg, be)
	for _, shape := range [][]int{{1, 3, 2, 2}, {4, 2, 2}, {1, 4, MaxSide, 1}} {
		if _, err := m.Decode(be, be.Alloc(kernels.F32, shape...)); err == nil {
			t.Errorf("decode %v: no error", shape)
		}
	}
	for _, shape := range [][]int{{1, 7, 8, 3}, {1, 8, 8, 4}, {8, 8, 3}} {
		if _, err := m.Encode(be, be.Alloc(kernels.F32, shape...)); err == nil {
			t.Errorf("encode %v: no error", shape)
		}
	}
	if err := be.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestRGB24(t *testing.T) {
	nan := float32(math.NaN())
	src := []float32{-2, -1, -0.998, 0, 0.9999, 1, 7, nan, float32(math.Inf(1)), float32(math.Inf(-1))}
	want := []byte{0, 0, 0, 128, 255, 255, 255, 0, 255, 0}
	got := make([]byte, len(src))
	RGB24(got, src)
	for i := range src {
		if got[i] != want[i] {
			t.Errorf("RGB24(%g) = %d, want %d", src[i], got[i], want[i])
		}
	}
}
