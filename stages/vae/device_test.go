package vae

import (
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages/nn/nntest"
)

// TestOnALateDevice: nothing is read before Download, no memory counts as zero, no tensor outlives its
// scope.
func TestOnALateDevice(t *testing.T) {
	cfg, c := readGolden(t, "one_layer")
	z, x := nntest.Hash("input.z", 1.7, c.ZShape...), nntest.Hash("input.x", 1, c.XShape...)
	direct, late := cpu.New(1), kerneltest.Deferred(cpu.New(1))
	m, n := hashed(t, cfg, direct), hashed(t, cfg, late)
	if !slices.Equal(decode(t, late, n, z, c.ZShape), decode(t, direct, m, z, c.ZShape)) {
		t.Error("decode: other bits on a late device")
	}
	if !slices.Equal(encode(t, late, n, x, c.XShape), encode(t, direct, m, x, c.XShape)) {
		t.Error("encode: other bits on a late device")
	}
}

// TestMemory: each further frame needs the same, and a 512x512 frame of the published model less than
// 1.5 GB, of which the widest feature maps (256 channels) are 268 MB each.
func TestMemory(t *testing.T) {
	c := Config{
		InChannels: 3, OutChannels: 3, LatentChannels: 4, BlockOutChannels: []int{128, 256, 512, 512},
		LayersPerBlock: 2, NormNumGroups: 32, ActFn: "silu", ScalingFactor: 0.18215,
		UseQuantConv: true, UsePostQuantConv: true, MidAttention: true,
	}
	one, err := c.DecodeBytes(1, 64, 64)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := c.DecodeBytes(2, 64, 64); two != 2*one || one < 2*268e6 || one > 1.5e9 {
		t.Errorf("one frame needs %d bytes, two %d", one, two)
	}
	if encode, err := c.EncodeBytes(1, 512, 512); err != nil || encode < 2*134e6 || encode > 1.5e9 {
		t.Errorf("encode needs %d bytes, %v", encode, err)
	}
}
