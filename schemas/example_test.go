package schemas_test

import (
	"fmt"

	"latentbeam/schemas"
)

// A resolution and an aspect ratio by their published names.
func ExampleSizeByName() {
	height, width, err := schemas.SizeByName("480p", "9:16")
	fmt.Println(height, width, err)
	// Output: 480 854 <nil>
}

// The nearest number of frames that a model with 4 n + 1 frames makes.
func ExampleNearestFrames() {
	fmt.Println(schemas.NearestFrames(80, 4, 1))
	// Output: 81
}

// A column of a prompt table: its other names and its bounds.
func ExampleFieldByName() {
	f, known := schemas.FieldByName("num_inference_steps")
	fmt.Println(known, f.Range())
	fmt.Println(f.CheckInteger(0))
	// Output:
	// true a whole number from 1 to 1000
	// 0 is out of range, a whole number from 1 to 1000
}

// Rows of one bucket may be computed in one batch.
func ExampleBucketOf() {
	guidance := 5.0
	a := schemas.PromptRow{Prompt: "a cat", Height: 480, Width: 832, NumFrames: 81, NumInferenceSteps: 50, GuidanceScale: &guidance}
	b := a
	b.Prompt = "a dog"
	c := b
	c.NumFrames = 33
	fmt.Println(schemas.BucketOf(a) == schemas.BucketOf(b), schemas.BucketOf(a) == schemas.BucketOf(c))
	// Output: true false
}
