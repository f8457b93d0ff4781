package nntest

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/weights/safetensors"
)

// block is the number of a block in a tensor's name.
var block = regexp.MustCompile(`(blocks?)\.\d+\.`)

// t5Scores is the square root of T5's d_kv. T5 does not scale its scores, but initialises its queries that much smaller.
// Without this factor, 24 random layers would amplify rounding errors until results cannot be compared.
const t5Scores = 8

// Repeated returns a safetensors file in memory with these tensors in bf16, for models of published size. Every block has the
// hashed Weight of block 0, so that only one block's values are computed.
func Repeated(t testing.TB, shapes map[string][]int) *safetensors.File {
	t.Helper()
	tensors := make([]safetensors.TensorInfo, 0, len(shapes))
	size := 1 << 20 // names and shapes
	for name, shape := range shapes {
		info := safetensors.TensorInfo{Name: name, DType: "BF16", Shape: shape}
		n, err := info.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		tensors, size = append(tensors, info), size+int(n)
	}
	made := map[string][]byte{}
	values := func(name string, shape []int) []byte {
		if at := block.FindStringSubmatchIndex(name); at != nil {
			name = name[:at[3]] + ".0." + name[at[1]:]
		}
		if made[name] == nil {
			values := Weight(name, shape...)
			if strings.HasSuffix(name, ".SelfAttention.q.weight") {
				for i := range values {
					values[i] /= t5Scores
				}
			}
			made[name] = kernels.BF16.Bytes(values)
		}
		return made[name]
	}
	file := bytes.NewBuffer(make([]byte, 0, size))
	err := safetensors.Stream(file, tensors, nil, func(w io.Writer, i safetensors.TensorInfo) error {
		_, err := w.Write(values(i.Name, i.Shape))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.New(slices.Clip(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
