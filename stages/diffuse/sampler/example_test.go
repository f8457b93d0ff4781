package sampler_test

import (
	"context"
	"fmt"

	"latentbeam/stages/diffuse/sampler"
)

// The timesteps at which the solver of Wan calls the network, for four steps with shift 5.
func ExampleWan() {
	recipe, err := sampler.Wan(sampler.WanConfig{Solver: "unipc", Shift: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := recipe.New(4, sampler.VideoSize{Height: 480, Width: 832, Frames: 81})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Timesteps(), recipe.Check(0, sampler.VideoSize{}))
	// Output: [999 937 833 625] num_inference_steps is 0: give 1 to 1000
}

// A sampler of one's own: Euler's method on a network whose velocity is the latents themselves.
func ExampleLoop() {
	timesteps, sigmas := sampler.FlowTable(4, 1)
	loop := sampler.Loop{Name: "mine", Timesteps: timesteps, Step: func(r *sampler.Run, i int) {
		for e := range r.N {
			x := r.Latents(e)
			for j, v := range r.Prediction(e) {
				x[j] += float32((sigmas[i+1] - sigmas[i]) * v)
			}
		}
	}}
	z := []float32{1}
	network := func(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) { return rows, nil }
	err := loop.Sample(context.Background(), sampler.Batch{N: 1, Channels: 1, Size: 1}, z, network, nil, nil)
	fmt.Printf("%.3f %v\n", z[0], err)
	// Output: 0.296 <nil>
}

// What a model's scheduler_config.json says.
func ExampleParseScheduler() {
	s, err := sampler.ParseScheduler([]byte(`{"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}`), sampler.FlowMatching)
	fmt.Println(s, err)
	// Output: euler, flow_shift 3 <nil>
}
