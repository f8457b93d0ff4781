package dit_test

import (
	"fmt"

	"latentbeam/stages/diffuse/dit"
)

// The architecture that a config.json names: what a family recognises its models by.
func ExampleClassName() {
	class, err := dit.ClassName([]byte(`{"_class_name": "WanTransformer3DModel"}`))
	fmt.Println(class, err)
	// Output: WanTransformer3DModel <nil>
}
