package t5

import (
	"maps"
	"strings"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// tensorsOf are the hashed weights of a configuration.
func tensorsOf(t *testing.T, cfg Config) map[string]safetensors.Tensor {
	t.Helper()
	out := map[string]safetensors.Tensor{}
	for name, shape := range nntest.Shapes(t, cfg, Load) {
		out[name] = nntest.Tensor(nntest.Weight(name, shape...), shape...)
	}
	return out
}

// TestVariantIsChecked: weights of another variant than config.json states are refused, and so is an embedding that differs
// under its two names.
func TestVariantIsChecked(t *testing.T) {
	umt5, _ := readVariant(t, modelUMT5)
	mt5, _ := readVariant(t, modelMT5)
	t5 := mt5
	t5.ModelType = modelT5
	first := "encoder.block.0." + biasName
	last := "encoder.block.2." + biasName
	alias := tensorsOf(t, umt5)
	alias[tokensName] = alias[sharedName]
	zero := maps.Clone(alias)
	zero[tokensName] = nntest.Tensor(make([]float32, umt5.VocabSize*umt5.DModel), umt5.VocabSize, umt5.DModel)
	zeroT5 := tensorsOf(t, t5)
	zeroT5[tokensName] = zero[tokensName]
	moved := tensorsOf(t, umt5)
	moved[tokensName] = moved[sharedName]
	delete(moved, sharedName)
	hole := tensorsOf(t, umt5)
	delete(hole, last)
	without := tensorsOf(t, umt5)
	delete(without, first)
	for name, c := range map[string]struct {
		cfg     Config
		tensors map[string]safetensors.Tensor
		want    string
	}{
		"UMT5": {umt5, tensorsOf(t, umt5), ""}, "both names": {umt5, alias, ""}, "other name": {umt5, moved, ""},
		"one table":      {umt5, tensorsOf(t, mt5), "one in block 0 alone: they are those of T5 or mT5"},
		"many tables":    {mt5, tensorsOf(t, umt5), "they are those of UMT5"},
		"many for T5":    {t5, tensorsOf(t, umt5), "they are those of UMT5"},
		"table missing":  {umt5, hole, `missing     "` + last},
		"first missing":  {umt5, without, `missing     "` + first},
		"zero embedding": {umt5, zero, "one of them is damaged"},
		"zero of a T5":   {t5, zeroT5, ""}, // which has always been read by its first name
	} {
		_, err := Load(c.cfg, weights.NewWeights(cpu.New(1), nntest.Encode(t, c.tensors)))
		nntest.WantError(t, name, err, c.want)
		if err != nil && strings.Count(err.Error(), "load t5") != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOwnPositionsMatter: a UMT5 in which every block has the position table of block 0 equals a T5.
func TestOwnPositionsMatter(t *testing.T) {
	umt5, c := readVariant(t, modelUMT5)
	mt5, _ := readVariant(t, modelMT5)
	be := cpu.New(1)
	tensors := tensorsOf(t, umt5)
	own := encode(t, be, nntest.Loaded(t, be, umt5, Load, nntest.Encode(t, tensors)), c.IDs)
	for name := range tensors {
		if strings.HasSuffix(name, biasName) {
			tensors[name] = tensors["encoder.block.0."+biasName]
		}
	}
	same := encode(t, be, nntest.Loaded(t, be, umt5, Load, nntest.Encode(t, tensors)), c.IDs)
	one := encode(t, be, hashed(t, mt5, be), c.IDs)
	if d := nntest.RelativeRMS(same[3], one[3]); d != 0 {
		t.Errorf("equal tables give other numbers than one table: %g", d)
	}
	if d := nntest.RelativeRMS(own[3], one[3]); d < 0.01 {
		t.Errorf("tables of its own change UMT5 by %g only", d)
	}
}
