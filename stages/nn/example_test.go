package nn_test

import (
	"fmt"

	"latentbeam/stages/nn"
)

// How many tokens latents of 21 frames and 60 x 104 positions have, with the patches of Wan.
func ExamplePatch_Grid() {
	t, h, w := nn.Patch{1, 2, 2}.Grid(21, 60, 104)
	fmt.Println(t*h*w, t, h, w)
	// Output: 32760 21 30 52
}
