package vae

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/vae/osplan/causal"
	"latentbeam/stages/vae/osplan/wf"
	"latentbeam/stages/vae/wan"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// publishedConfigs are the config.json of the published autoencoders, as far as they concern inference.
var publishedConfigs = map[string]string{
	"sd-vae-ft-ema": `{"_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512],
		"down_block_types": ["DownEncoderBlock2D"], "up_block_types": ["UpDecoderBlock2D"],
		"layers_per_block": 2, "sample_size": 256}`,
	"OpenSora-VAE-v1.2": `{"architectures": ["VideoAutoencoderPipeline"], "cal_loss": false,
		"from_pretrained": null, "freeze_vae_2d": false, "micro_frame_size": 17,
		"model_type": "VideoAutoencoderPipeline", "scale": [3.85, 2.32, 2.33, 3.06],
		"shift": [-0.1, 0.34, 0.27, 0.98], "torch_dtype": "float32",
		"vae_2d": {"from_pretrained": "PixArt-alpha/pixart_sigma_sdxlvae_T5_diffusers",
		"local_files_only": false, "micro_batch_size": 4, "subfolder": "vae", "type": "VideoAutoencoderKL"},
		"vae_temporal": {"from_pretrained": null, "type": "VAE_Temporal_SD"}}`,
	"OpenSora-VAE-v1.3": `{"architectures": ["OpenSoraVAE_V1_3_Pipline"],
		"model_type": "OpenSoraVAE_V1_3_Pipline", "torch_dtype": "bfloat16",
		"decoder": {"ch": 128, "ch_mult": [1, 2, 4, 4], "in_channels": 3, "micro_batch_size_2d": null,
		"num_res_blocks": 2, "out_ch": 3, "temporal_up_layers": [2, 3], "type": "VideoDecoder", "z_channels": 16},
		"encoder": {"ch": 128, "ch_mult": [1, 2, 4, 4], "double_z": true, "down_sampling_layer": [1, 2],
		"in_channels": 3, "num_res_blocks": 2, "out_ch": 3, "type": "VideoEncoder", "z_channels": 16}}`,
	"Wan2.1-VAE": ofClass("AutoencoderKLWan", wan.New()),
	"Wan2.2-VAE": ofClass("AutoencoderKLWan", wan.NewTI2V5B()),
	"WF-VAE":     ofClass("WFVAEModel", wf.NewPublished()),
	"CausalVAE":  ofClass("CausalVAEModel", causal.NewPublished()),
}

// ofClass is a config.json, as diffusers writes it.
func ofClass(class string, config any) string {
	data, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"_class_name": %q, %s`, class, data[1:])
}

func published(t testing.TB, name string) Config {
	t.Helper()
	cfg, err := ParseConfig([]byte(publishedConfigs[name]))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestStreamedPublished: the published sizes have as many tensors and parameters as the reference's modules. A checkpoint of
// these needs no config.json, except a CausalVAE. Tensors that do not fit are named; tensors that no network needs are
// ignored.
func TestStreamedPublished(t *testing.T) {
	for _, c := range []struct {
		name, title         string
		tensors, parameters int
		some                map[string][]int
		ignored             string
	}{
		{"Wan2.1-VAE", "autoencoder of Wan 2.1 (causal 3D, 16 latent channels)", 194, 126_892_531, map[string][]int{
			"encoder.down_blocks.8.time_conv.weight": {384, 384, 3, 1, 1}, "decoder.up_blocks.1.resnets.0.conv_shortcut.bias": {384},
			"decoder.up_blocks.0.upsamplers.0.resample.1.weight": {192, 384, 3, 3}, "decoder.mid_block.attentions.0.norm.gamma": {384, 1, 1},
			"encoder.mid_block.attentions.0.to_qkv.weight": {1152, 384}, "decoder.norm_out.gamma": {96, 1, 1, 1}}, ""},
		{"Wan2.2-VAE", "autoencoder of Wan 2.2 (causal 3D, 48 latent channels)", 196, 704_688_668, map[string][]int{
			"encoder.down_blocks.1.downsampler.time_conv.weight": {320, 320, 3, 1, 1}, "decoder.conv_out.weight": {12, 256, 3, 3, 3},
			"decoder.up_blocks.0.upsampler.resample.1.weight": {1024, 1024, 3, 3}, "quant_conv.bias": {96}}, ""},
		{"WF-VAE", "autoencoder of Open-Sora-Plan 1.3 (WF-VAE, 8 latent channels)", 220, 147_347_660, map[string][]int{
			"encoder.down1.3.conv.weight": {128, 128, 3, 3}, "encoder.down2.3.conv.conv.weight": {256, 256, 3, 3, 3},
			"encoder.mid.0.nin_shortcut.conv.weight": {512, 320, 1, 1, 1}, "decoder.up2.2.conv.conv.weight": {512, 512, 3, 3, 3},
			"decoder.up1.2.conv.weight": {256, 256, 3, 3}, "decoder.connect_l1.2.weight": {12, 128, 3, 3},
			"encoder.norm_out.norm.bias": {512}}, "decoder.inverse_wavelet_tranform_l2.gh_v"},
		{"CausalVAE", "autoencoder of Open-Sora-Plan 1.2 (causal 3D)", 248, 239_189_991, map[string][]int{
			"encoder.conv_in.weight": {128, 3, 3, 3}, "encoder.down.0.downsample.conv.weight": {128, 128, 3, 3},
			"encoder.down.1.downsample.conv.conv.weight": {256, 256, 3, 3, 3}, "decoder.up.1.upsample.conv.conv.weight": {256, 256, 1, 3, 3},
			"decoder.mid.attn_1.proj_out.conv.weight": {512, 512, 1, 1, 1}, "quant_conv.conv.weight": {8, 8, 1, 1, 1}}, "loss.logvar"},
	} {
		w := weights.ShapesOnly()
		if title, err := Family().Load([]byte(publishedConfigs[c.name]), w); err != nil || title != c.title {
			t.Fatalf("%q, %v", title, err)
		}
		var infos []safetensors.TensorInfo
		parameters := 0
		for name, shape := range w.Requested() {
			if strings.Contains(name, "attentions.0.") && strings.HasSuffix(name, ".weight") {
				shape = append(shape, 1, 1) // published as convolutions
			}
			infos = append(infos, safetensors.TensorInfo{Name: name, DType: "F32", Shape: shape})
			n := 1
			for _, d := range shape {
				n *= d
			}
			parameters += n
		}
		if len(infos) != c.tensors || parameters != c.parameters {
			t.Errorf("%s: %d tensors of %d parameters, want %d of %d", c.name, len(infos), parameters, c.tensors, c.parameters)
		}
		for name, shape := range c.some {
			if got := w.Requested()[name]; !slices.Equal(got, shape) {
				t.Errorf("%s: shape %v, want %v", name, got, shape)
			}
		}
		read, gone := published(t, c.name), infos[0].Name
		stranger := append(slices.Clone(infos[1:]), safetensors.TensorInfo{Name: "stranger", DType: "F32", Shape: []int{1}})
		if _, err := Load(read, weights.Outline(stranger)); err == nil || !strings.Contains(err.Error(), gone) ||
			!strings.Contains(err.Error(), "stranger") {
			t.Errorf("%s without %s: %v", c.name, gone, err)
		}
		if c.ignored != "" {
			infos = append(infos, safetensors.TensorInfo{Name: c.ignored, DType: "F32", Shape: []int{1, 1, 2, 2, 2}})
		}
		if _, err := Load(read, weights.Outline(infos)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		checkGuess(t, c.name, read, infos)
	}
}

// checkGuess: the tensors of a file tell its configuration. That of Wan also has what config.json leaves out.
func checkGuess(t *testing.T, name string, read Config, infos []safetensors.TensorInfo) {
	t.Helper()
	config, err := Family().Guess(weights.ShapesOf(infos))
	if name == "CausalVAE" {
		nntest.WantError(t, name+" without config.json", err, "put the config.json that it was published with beside it")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	guessed, err := ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	same := reflect.DeepEqual(guessed, read)
	if strings.HasPrefix(name, "Wan") {
		same = reflect.DeepEqual(guessed.Traits, read.Traits) &&
			maps.EqualFunc(nntest.Shapes(t, guessed, Load), nntest.Shapes(t, read, Load), slices.Equal)
	}
	if !same {
		t.Errorf("%s: guessed %s", name, config)
	}
}

// TestStatistics: tables state the mean and the deviation of each channel. Those of WF-VAE are shift and one over scale.
func TestStatistics(t *testing.T) {
	cases := streamedCases(t)
	for name, want := range map[string]string{"wf_other_1frames": "[0.5 -0.25 0 1] [2 1 0.5 4]",
		"causal_fixed_1frames": "[0 0 0 0] [5.49 5.49 5.49 5.49]"} {
		space := cases[name].config(t).LatentSpace("")
		if got := fmt.Sprintf("%.3g %.3g", space.Mean, space.Std); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
