package kernels_test

import (
	"fmt"

	"latentbeam/kernels"
)

// bfloat16 keeps the first 8 bits of a float32's significand. A number in the middle of two values is rounded to the even one.
func ExampleDType_Round() {
	fmt.Println(kernels.BF16.Round(1.00390625), kernels.BF16.Round(3.14159265), kernels.BF16.Size())
	// Output: 1 3.140625 2
}

// A view, such as a narrowed or permuted tensor, shares the data of its tensor and copies nothing.
func ExampleTensor() {
	x := kernels.NewTensor(kernels.F32, nil, 2, 3, 4) // (B, S, C)
	row := x.Narrow(1, 1, 1).Permute(0, 2, 1)
	fmt.Println(row.Shape, row.Strides, row.Offset, row.Contiguous())
	// Output: [2 4 1] [12 1 4] 4 false
}
