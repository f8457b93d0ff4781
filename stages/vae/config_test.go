package vae

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// TestPublishedTensors compares the names and shapes of all tensors with the state dicts of the reference's
// modules at full size: the digest is over the sorted lines "name d0 d1 ...", each with a line feed.
func TestPublishedTensors(t *testing.T) {
	for _, c := range []struct {
		name              string
		tensors, elements int
		digest            string
	}{
		{"sd-vae-ft-ema", 248, 83653863, "b7eefd651ee44685f731df2aff3a2c0971b4fd2a227930c8cd80236465095825"},
		{"OpenSora-VAE-v1.2", 517, 393341015, "139ed1c6e182eb1e91230793ed2d067d75a9c9aabb4c1676bb931fec2fa6c1e5"},
		{"OpenSora-VAE-v1.3", 256, 259163811, "e0ce0960b3d32983045d1968d8ebc76b442368a509a2dd5c833a0c745dfeba1f"},
	} {
		shapes := nntest.Shapes(t, published(t, c.name), Load)
		elements := 0
		var lines []string
		for name, shape := range shapes {
			n, line := 1, name
			for _, d := range shape {
				n *= d
				line += fmt.Sprint(" ", d)
			}
			elements += n
			lines = append(lines, line+"\n")
		}
		slices.Sort(lines)
		digest := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, ""))))
		if len(shapes) != c.tensors || elements != c.elements || digest != c.digest {
			t.Errorf("%s: %d tensors of %d elements, digest %s; want %d of %d, %s:\n%s", c.name, len(shapes), elements,
				digest, c.tensors, c.elements, c.digest, strings.Join(lines, ""))
		}
	}
}

// TestLatentShape: the number of latent frames is that of the reference, also for sizes that it halves with or without
// rounding up.
func TestLatentShape(t *testing.T) {
	for _, c := range []struct {
		name                  string
		frames, height, width int
		want                  []int // nil: refused
	}{
		{"sd-vae-ft-ema", 16, 240, 426, []int{4, 16, 30, 53}},
		{"OpenSora-VAE-v1.2", 1, 256, 256, []int{4, 1, 32, 32}},
		{"OpenSora-VAE-v1.2", 17, 256, 256, []int{4, 5, 32, 32}},
		{"OpenSora-VAE-v1.2", 18, 256, 256, []int{4, 6, 32, 32}},
		{"OpenSora-VAE-v1.2", 51, 240, 426, []int{4, 15, 30, 53}},
		{"OpenSora-VAE-v1.2", 408, 256, 256, []int{4, 120, 32, 32}},
		{"OpenSora-VAE-v1.3", 1, 256, 256, []int{16, 1, 32, 32}},
		{"OpenSora-VAE-v1.3", 49, 360, 640, []int{16, 15, 45, 80}},
		{"OpenSora-VAE-v1.3", 113, 720, 1280, []int{16, 35, 90, 160}},
		{"OpenSora-VAE-v1.3", 17, 12, 22, []int{16, 5, 2, 3}},
		{"OpenSora-VAE-v1.3", 17, 17, 16, nil},
		{"OpenSora-VAE-v1.3", 51, 256, 256, nil},
		{"OpenSora-VAE-v1.3", 16, 256, 256, nil},
		{"OpenSora-VAE-v1.2", 0, 256, 256, nil},
		{"sd-vae-ft-ema", 1, 7, 256, nil},
		{"sd-vae-ft-ema", 1, 8, MaxSide + 1, nil},
		{"Wan2.1-VAE", 81, 480, 832, []int{16, 21, 60, 104}},
		{"Wan2.1-VAE", 1, 487, 833, []int{16, 1, 60, 104}},
		{"Wan2.2-VAE", 121, 704, 1280, []int{48, 31, 44, 80}},
		{"WF-VAE", 93, 480, 640, []int{8, 24, 60, 80}},
		{"CausalVAE", 29, 720, 1280, []int{4, 8, 90, 160}},
	} {
		got, err := published(t, c.name).LatentShape(c.frames, c.height, c.width)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: %d frames of %dx%d: %v, %v; want %v", c.name, c.frames, c.width, c.height, got, err, c.want)
		}
	}
}

// TestLatentShapeErrors: an error names the wrong value of the row.
func TestLatentShapeErrors(t *testing.T) {
	for _, c := range []struct {
		name                  string
		frames, height, width int
		says                  string
	}{
		{"Wan2.1-VAE", 80, 480, 832, "num_frames is 80: this autoencoder takes 1 frame and any multiple of 4 more, such as 81"},
		{"Wan2.1-VAE", 0, 480, 832, "num_frames is 0: give 1 or more"},
		{"Wan2.1-VAE", 5, 7, 832, "height is 7: give 8 to 16384 pixels"},
		{"Wan2.2-VAE", 5, 488, 832, "height is 488: give a multiple of 16"},
		{"Wan2.2-VAE", 5, 480, 840, "width is 840: give a multiple of 16"},
		{"WF-VAE", 28, 480, 640, "num_frames is 28: this autoencoder takes 1 frame and any multiple of 4 more, such as 29"},
		{"WF-VAE", 29, 484, 640, "height is 484: give a multiple of 8"},
		{"WF-VAE", 29, 480, 641, "width is 641: give a multiple of 8"},
		{"CausalVAE", 28, 480, 640, "num_frames is 28: this autoencoder takes 1 frame and any multiple of 4 more, such as 29"},
		{"CausalVAE", 29, 484, 640, "height is 484: give a multiple of 8"},
		{"CausalVAE", 29, 480, 641, "width is 641: give a multiple of 8"},
	} {
		_, err := published(t, c.name).LatentShape(c.frames, c.height, c.width)
		nntest.WantError(t, c.name, err, c.says)
	}
}

func TestConfigIsChecked(t *testing.T) {
	const v12, v13 = `{"model_type":"VideoAutoencoderPipeline",`, `{"model_type":"OpenSoraVAE_V1_3_Pipline",`
	const wanVAE, causalVAE = `{"_class_name":"AutoencoderKLWan",`, `{"_class_name":"CausalVAEModel",`
	const wfVAE = `{"_class_name":"WFVAEModel","norm_type":"layernorm",`
	for _, c := range []struct{ json, want string }{
		{`{}`, ""},
		{`3`, "parse vae config.json"},
		{`{"_class_name":"AutoencoderDC"}`, `"AutoencoderDC" is not a supported autoencoder`},
		{`{"_class_name":3}`, "parse vae config.json"},
		{`{"act_fn":"relu"}`, "act_fn"},
		{`{"block_out_channels":[]}`, "block_out_channels has 0 entries"},
		{`{"block_out_channels":[48]}`, "divisible by norm_num_groups 32"},
		{`{"layers_per_block":0}`, "layers_per_block is 0"},
		{`{"norm_num_groups":0}`, "norm_num_groups is 0"},
		{`{"latent_channels":-1}`, "latent_channels is -1"},
		{`{"down_block_types":["DownBlock2D"]}`, "DownBlock2D"},
		{`{"up_block_types":["UpBlock2D"]}`, "UpBlock2D"},
		{`{"shift_factor":0.1}`, ""},
		{`{"latents_mean":[1,2,3,4]}`, "latents_mean"},
		{`{"latents_mean":null,"shift_factor":null}`, ""},
		{`{"latents_mean":[1,2,3,4],"latents_std":[1,2,0,4]}`, "latents_std[2] is 0"},
		{`{"mid_block_add_attention":false,"act_fn":"swish","down_block_types":["AttnDownEncoderBlock2D"]}`, ""},
		{`{"use_quant_conv":false,"use_post_quant_conv":false}`, ""},
		{`{"scaling_factor":0}`, "scaling_factor"},
		{v12 + `"vae_2d":{"layers_per_block":0}}`, "layers_per_block is 0"},
		{v12 + `"vae_2d":{"latent_channels":8}}`, "has 8 latent channels, the temporal one takes 4"},
		{v12 + `"vae_temporal":{"type":"other"}}`, `vae_temporal.type is "other"`},
		{v12 + `"vae_temporal":{"filters":-1}}`, "vae_temporal.filters is -1"},
		{v12 + `"vae_temporal":{"filters":48}}`, "channel_multipliers[0] is 1"},
		{v12 + `"vae_temporal":{"channel_multipliers":[]}}`, "0 channel_multipliers"},
		{v12 + `"vae_temporal":{"temporal_downsample":[true]}}`, "1 temporal_downsample"},
		{v12 + `"micro_frame_size":0}`, "micro_frame_size is 0"},
		{v12 + `"shift":[1,2]}`, "shift has 2 numbers"},
		{v12 + `"scale":[]}`, "scale 0"},
		{v12 + `"scale":2}`, ""},
		{v12 + `"scale":"2"}`, "parse vae config.json"},
		{v13 + `"normalization":"video_5frames"}`, ""},
		{v13 + `"normalization":"image"}`, `normalization is "image": there are "video", "video_5frames"`},
		{v13 + `"normalization":"video_5frames","micro_frame_size":9}`, "groups of 5 latent frames"},
		{v13 + `"normalization":null,"encoder":{"z_channels":4},"decoder":{"z_channels":4}}`, "for 16"},
		{v13 + `"normalization":"","encoder":{"z_channels":4},"decoder":{"z_channels":4}}`, ""},
		{v13 + `"encoder":{"double_z":false}}`, "double_z"},
		{v13 + `"encoder":{"ch_mult":[1,2,4]}}`, "do not fit"},
		{v13 + `"encoder":{"ch":40}}`, "divisible by 32"},
		{v13 + `"decoder":{"ch_mult":[0,1]}}`, "decoder.ch_mult[0] is 0"},
		{v13 + `"decoder":{"num_res_blocks":1000}}`, "num_res_blocks is 1000"},
		{v13 + `"encoder":{"down_sampling_layer":[2,1]}}`, "must be ascending"},
		{v13 + `"encoder":{"down_sampling_layer":[1,9]}}`, "must be ascending"},
		{v13 + `"micro_frame_size":16}`, "micro_frame_size is 16"},
		{v13 + `"micro_frame_size":1}`, "temporal_overlap needs"},
		{`{"_class_name":"AutoencoderKLWan"}`, ""},
		{wanVAE + `"z_dim": 8}`, "latents_mean and latents_std have 16 and 16 entries, z_dim is 8"},
		{wanVAE + `"attn_scales": [0.5]}`, "attn_scales is [0.5], only [] is supported"},
		{wanVAE + `"base_dim": 0}`, "base_dim is 0"},
		{wanVAE + `"patch_size": 2}`, "in_channels and out_channels are 3 and 3, patch_size 2 makes them 12"},
		{wanVAE + `"dim_mult": [1, 2, 4]}`, "give 2 entries for dim_mult [1 2 4], two of them true"},
		{wanVAE + `"temperal_downsample": [true, true, true]}`, "two of them true"},
		{wanVAE + `"is_residual": true, "dim_mult": [3, 1, 1, 16]}`, "a shortcut of the encoder cannot make"},
		{wanVAE + `"latents_std": [0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}`, "latents_std[0] is 0, must be positive"},
		{wanVAE + `"base_dim": 1, "dim_mult": [1, 1, 1, 1]}`, "base_dim 1 is too small"},
		{`{"_class_name": "CausalVAEModel"}`, ""},
		{`{"_class_name": "WFVAEModel"}`, `norm_type is "groupnorm", only "layernorm" is supported`},
		{`{"_class_name": "WFVAEModel", "norm_type": "layernorm"}`, ""},
		{wfVAE + `"latent_dim": 16}`, "scale and shift have 8 and 8 entries, latent_dim is 16"},
		{wfVAE + `"scale": [1]}`, "scale and shift have 1 and 8 entries"},
		{wfVAE + `"t_interpolation": 1}`, "parse vae config.json"},
		{wfVAE + `"l1_dowmsample_block": "Spatial2xTime2x3DDownsample"}`, `only "Downsample" is supported`},
		{wfVAE + `"decoder_energy_flow_hidden_size": 64}`, "connect_l1 and connect_l2 take base_channels, 128"},
		{causalVAE + `"encoder_attention": "AttnBlock"}`,
			`encoder_attention holds "AttnBlock", known are "AttnBlock3D", "AttnBlock3DFix"`},
		{causalVAE + `"attn_resolutions": [16]}`, "attn_resolutions is [16], only [] is supported"},
		{causalVAE + `"hidden_size": 48}`,
			"hidden_size_mult[0] is 1, times hidden_size 48 it must be at most 16384 and divisible by 32"},
		{causalVAE + `"encoder_resnet_blocks": ["ResnetBlock3D"]}`, "encoder_resnet_blocks has 1 entries, hidden_size_mult has 4"},
		{causalVAE + `"encoder_temporal_downsample": ["", "", "TimeDownsampleRes2x", ""]}`,
			`encoder_temporal_downsample holds "TimeDownsampleRes2x", known are "", "TimeDownsample2x"`},
		{causalVAE + `"encoder_temporal_downsample": ["", "", "TimeDownsample2x", ""]}`, "the encoder halves frames 1 times"},
	} {
		_, err := ParseConfig([]byte(c.json))
		nntest.WantError(t, c.json, err, c.want)
		if err != nil && !strings.HasPrefix(err.Error(), "vae config.json: ") && !strings.HasPrefix(err.Error(), "parse vae config.json: ") {
			t.Errorf("%s: %v", c.json, err)
		}
	}
}
