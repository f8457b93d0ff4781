package weights_test

import (
	"fmt"
	"maps"
	"slices"

	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// The tensors that a network reads, without a checkpoint: for random weights, and to compare with published names.
func ExampleShapesOnly() {
	w := weights.ShapesOnly()
	nn.LoadMLP(w.Sub("blocks.0.mlp"), 64, 256, 64)
	asked := w.Requested()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		fmt.Println(name, asked[name])
	}
	// Output:
	// blocks.0.mlp.fc1.bias [256]
	// blocks.0.mlp.fc1.weight [256 64]
	// blocks.0.mlp.fc2.bias [64]
	// blocks.0.mlp.fc2.weight [64 256]
}

// The names of other code, brought to those that a family reads.
func ExampleLayout_Names() {
	layout := weights.Layout{Mark: "head.weight", Strip: "model.", Rules: weights.Rules(`head\.(.*)`, "proj_out.$1")}
	names := layout.Names(weights.Shapes{"model.head.weight": {8, 4}})
	fmt.Println(names["model.head.weight"])
	// Output: proj_out.weight
}
