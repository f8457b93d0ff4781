package vae

import (
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages/nn/nntest"
)

// TestSameBits: any micro batch and any number of threads gives the same bits, in both directions. So does a Deferred device,
// which finds results that are read before Download, memory that is assumed to be zero, and tensors that are used after their
// scope.
func TestSameBits(t *testing.T) {
	cases := goldenCases(t)
	for name, c := range streamedCases(t) {
		c.DType = "fp32"
		cases[name] = c
		c.DType = "bf16"
		cases[name+" in bf16"] = c
	}
	for _, name := range []string{"vae_kl_fp32", "vae_kl_fp16", "vae_v1_2_23frames_fp32", "vae_v1_3_33frames_overlap_fp32",
		"wan21_9frames_odd", "wan21_9frames_odd in bf16", "wan21_17frames", "wan22_9frames", "wan22_9frames in bf16",
		"wf_9frames", "wf_9frames in bf16", "wf_other_13frames", "causal_fixed_5frames", "causal_mixed_9frames",
		"causal_defaults_9frames", "causal_defaults_9frames in bf16"} {
		c, ok := cases[name]
		if !ok {
			t.Fatalf("no case %s", name)
		}
		one := cpu.New(1)
		m := hashed(t, c.config(t), one)
		frames := c.PixelsShape[1]
		pixels := decode(t, one, m, c.LatentsShape, frames, 1)
		latents := encode(t, one, m, c.XShape, 1, c.hashedNoise())
		late := kerneltest.Deferred(cpu.New(2))
		for what, by := range map[string]struct {
			be    kernels.Backend
			m     *Model
			micro int
		}{"2 threads": {cpu.New(2), m, 4}, "8 threads": {cpu.New(8), m, 1}, "3 threads": {cpu.New(3), m, 1000},
			"a late device": {late, hashed(t, c.config(t), late), 2}} {
			if !slices.Equal(decode(t, by.be, by.m, c.LatentsShape, frames, by.micro), pixels) {
				t.Errorf("%s: decode: other bits on %s, %d at a time", name, what, by.micro)
			}
			if !slices.Equal(encode(t, by.be, by.m, c.XShape, by.micro, c.hashedNoise()), latents) {
				t.Errorf("%s: encode: other bits on %s, %d at a time", name, what, by.micro)
			}
		}
	}
}

// TestGroupsAreIndependent: a group of frames has the same bits alone and in a longer video, so groups can be computed on any
// device.
func TestGroupsAreIndependent(t *testing.T) {
	cases := goldenCases(t)
	c := cases["vae_v1_2_23frames_fp32"]
	be := cpu.New(2)
	m := hashed(t, c.config(t), be)
	both := images("input.z", 1.7, []int{7, 4, 3, 2}) // 5 latent frames of 17, 2 of 6
	whole := decodeArray(t, be, m, both, 23, 4)
	size := len(whole.Data) / 23
	for _, part := range []struct{ from, to, first, frames int }{{0, 5, 0, 17}, {5, 7, 17, 6}} {
		alone := decodeArray(t, be, m, framesFrom(both, part.from, part.to-part.from), part.frames, 4)
		if !slices.Equal(alone.Data, whole.Data[part.first*size:(part.first+part.frames)*size]) {
			t.Errorf("latent frames %d to %d: other bits alone", part.from, part.to)
		}
	}
}

// TestMemory: the memory of a group does not grow with the video, and a 512x512 frame of the 2D model needs less than 1.5 GB;
// the widest feature maps (256 channels) need 268 MB each.
func TestMemory(t *testing.T) {
	c := published(t, "sd-vae-ft-ema")
	one, err := c.DecodeBytes(1, 512, 512, 4)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := c.DecodeBytes(2, 512, 512, 4); two != 2*one || one < 2*268e6 || one > 1.5e9 {
		t.Errorf("one frame needs %d bytes, two %d", one, two)
	}
	if many, _ := c.DecodeBytes(100, 512, 512, 1); many != one {
		t.Errorf("a hundred frames in micro batches of one need %d bytes, one frame %d", many, one)
	}
	if encode, err := c.EncodeBytes(1, 512, 512, 1); err != nil || encode < 2*134e6 || encode > 1.5e9 {
		t.Errorf("encode needs %d bytes, %v", encode, err)
	}
	for name, frames := range map[string][2]int{"OpenSora-VAE-v1.2": {17, 51}, "OpenSora-VAE-v1.3": {17, 49}} {
		c := published(t, name)
		for what, need := range map[string]func(f, h, w, m int) (int64, error){
			"decode": c.DecodeBytes, "encode": c.EncodeBytes,
		} {
			group, err := need(frames[0], 240, 424, 1)
			whole, err2 := need(frames[1], 240, 424, 1)
			if err != nil || err2 != nil || group != whole || group < 100e6 || group > 8e9 {
				t.Errorf("%s: %s: a group needs %d bytes, the whole video %d, %v %v", name, what, group, whole, err, err2)
			}
			t.Logf("%s: %s: %d MB", name, what, group>>20)
			c.DType = kernels.BF16
			half, _ := c.DecodeBytes(frames[0], 240, 424, 1)
			full, _ := published(t, name).DecodeBytes(frames[0], 240, 424, 1)
			if float64(half) > 0.53*float64(full) {
				t.Errorf("%s: bf16 needs %d bytes, fp32 %d", name, half, full)
			}
		}
	}
}

func TestShapesAreChecked(t *testing.T) {
	c := goldenCases(t)["vae_v1_3_17frames_fp32"]
	be := cpu.New(1)
	m := hashed(t, c.config(t), be)
	emit := func([]float32) {}
	for _, s := range []struct {
		shape  []int
		frames int
		want   string
	}{
		{[]int{16, 5, 2, 2}, 16, "num_frames is 16"}, {[]int{16, 4, 2, 2}, 17, "have shape [16 4 2 2]"},
		{[]int{4, 5, 2, 2}, 17, "have shape"}, {[]int{16, 5, 2}, 17, "(C, T, h, w)"},
		{[]int{16, 1, 1, MaxSide}, 1, "width is"}, {[]int{16, 0, 2, 2}, 0, "num_frames is 0"},
	} {
		z := images("input.z", 1, []int{1, 1, 1, 1})
		z.Shape = s.shape
		nntest.WantError(t, "decode", m.Decode(be, z, s.frames, 1, emit), s.want)
	}
	for _, s := range [][3]int{{17, 7, 8}, {17, 8, MaxSide + 8}, {5, 8, 8}, {0, 8, 8}, {-1, 8, 8}} {
		if _, err := m.Encode(be, Video{Frames: s[0], Height: s[1], Width: s[2]}, 1, nil); err == nil {
			t.Errorf("encode %v: no error", s)
		}
	}
}
