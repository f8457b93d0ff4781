package stages_test

import (
	"errors"
	"fmt"

	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// An error of one row is stored in its element; the rest of the batch continues.
func ExampleElement_Fail() {
	batch := []*stages.Element{{}, {}}
	batch[1].Fail("stamp", fault.Row(errors.New("the image has no pixels")))
	for _, e := range batch {
		fmt.Println(e.Failed != nil)
	}
	// Output:
	// false
	// true
}

// An error about an option of a stage is shown with the line of the YAML that has it.
func ExampleErrorf() {
	err := stages.Errorf("size", "size is %d: give 1 or more pixels", 0)
	fmt.Println(err.Key, "|", err)
	// Output: size | size is 0: give 1 or more pixels
}
