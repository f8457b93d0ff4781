package lora

import (
	"bytes"
	"path/filepath"
	"testing"

	"latentbeam/stages/weights/safetensors"
)

// FuzzAdapter: no file makes the reader of adapters panic, and each addition has the size of the tensor it is added to.
func FuzzAdapter(f *testing.F) {
	values := func(n int) []byte { return bytes.Repeat([]byte{0, 0, 128, 63}, n) }
	for _, names := range [][3]string{
		{"transformer.blocks.0.attn.to_q.lora_A.weight", "transformer.blocks.0.attn.to_q.lora_B.weight", "x.alpha"},
		{"lora_unet_blocks_0_attn_to_q.lora_down.weight", "lora_unet_blocks_0_attn_to_q.lora_up.weight", "lora_unet_blocks_0_attn_to_q.alpha"},
		{"blocks.0.attn.to_q.diff", "blocks.0.attn.to_q.diff_b", "blocks.0.attn.to_q.alpha"},
	} {
		var b bytes.Buffer
		tensors := map[string]safetensors.Tensor{names[0]: {DType: "F32", Shape: []int{2, 4}, Data: values(8)},
			names[1]: {DType: "F32", Shape: []int{4, 2}, Data: values(8)}, names[2]: {DType: "F32", Shape: []int{1}, Data: values(1)}}
		if err := safetensors.Write(&b, tensors, map[string]string{metadataKey: `{"r": 2, "lora_alpha": 4}`}); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := safetensors.New(data)
		if err != nil {
			return
		}
		a, err := read(filepath.Join(t.TempDir(), "adapter.safetensors"), file)
		if err != nil {
			return
		}
		added, _, err := a.Fit(map[string][]int{"blocks.0.attn.to_q.weight": {4, 4}, "blocks.0.attn.to_q.bias": {4}}, nil, 1, false)
		if err != nil {
			return
		}
		row := make([]float32, 4)
		for _, d := range added {
			d.Add(row, 0, 0)
		}
	})
}
