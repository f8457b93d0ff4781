package safetensors_test

import (
	"bytes"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/weights/safetensors"
)

// A file in memory: written, and read again.
func Example() {
	var b bytes.Buffer
	err := safetensors.Write(&b, map[string]safetensors.Tensor{
		"proj.weight": {DType: "F32", Shape: []int{1, 2}, Data: kernels.F32.Bytes([]float32{1, 2})},
	}, map[string]string{"format": "pt"})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := safetensors.New(b.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	t, _ := f.Tensor("proj.weight")
	fmt.Println(f.Names(), t.Shape, kernels.F32.Values(t.Data), f.Metadata()["format"])
	// Output: [proj.weight] [1 2] [1 2] pt
}
