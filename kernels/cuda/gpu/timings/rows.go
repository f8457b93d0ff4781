package main

// tableLine is one line of the table.
type tableLine struct {
	name  string
	stage string // stage with the test binary and the PyTorch model
	test  string // test of the binary
	full  string // case with the published size
	small string // case with a small size, for a machine without a GPU
	parts int    // number of sampler steps in one run of full; the table has the time of one
	// floor and target are milliseconds on an H200: the least that 790 TFLOP/s and 4.3 TB/s allow, and our goal.
	floor, target float64
}

// rows are whole steps of the published models in bf16, with two rows under guidance. A floor is the sum over all operations of
// max(FLOPs / rate, bytes / bandwidth). A target assumes 85 % of the rate for products, 70 % for the autoencoder's convolutions,
// 400 TFLOP/s for attention, and 85 % of the bandwidth.
var rows = []tableLine{
	{"STDiT-XL/2 16x512x512, guidance step", "stdit", "TestMeasureSteps", "1.0 16x64x64 16 120 28 5", "1.0 2x4x4 2 3 2 2",
		5, 71.4, 89},
	{"STDiT3 720p 51 frames, guidance step", "stdit", "TestMeasureSteps", "1.2 15x90x160 51 300 28 3", "1.2 5x4x4 17 3 1 1",
		3, 414, 546},
	{"T5-v1.1-xxl, 120 tokens", "t5", "TestMeasureEncode", "xxl 24 120", "small 2 7", 1, 2.33, 2.75},
	{"T5-v1.1-xxl, 300 tokens", "t5", "TestMeasureEncode", "xxl 24 300", "small 2 9", 1, 3.76, 4.4},
	{"AutoencoderKL, 16 frames 512x512", "vae", "TestMeasureClips", "sd decode 16x512x512 16 bf16",
		"sd decode 1x8x8 1 bf16", 1, 63, 88},
}
