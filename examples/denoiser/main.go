// Command toy is latentbeam with one denoiser more: a small diffusion transformer, found by the config.json of a model.
// Copy this directory to begin a family of your own.
//
//	go build -o toy . && ./toy weights transformer && ./toy run job.yaml
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"latentbeam"
	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "weights" {
		if err := writeWeights(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(latentbeam.Run(latentbeam.Extra{Denoisers: []dit.Family{family()}}))
}

// config is the config.json of the weights that writeWeights makes. Its channels and caption_channels are those of the
// built-in model, whose text encoder and autoencoder the job uses.
const config = `{"_class_name": "ToyDiT", "in_channels": 4, "hidden_size": 48, "depth": 2, "num_heads": 4, "caption_channels": 128,
  "model_max_length": 64}`

// writeWeights writes a checkpoint of random numbers: weights.ShapesOnly lists the tensors that Load asks for.
func writeWeights(dir string) error {
	c, err := parseConfig([]byte(config))
	if err != nil {
		return err
	}
	shapes := weights.ShapesOnly()
	if _, err := (&network{Config: c}).Load(shapes); err != nil {
		return err
	}
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range shapes.Requested() {
		values := make([]float32, kernels.Elements(shape))
		random := rand.New(rand.NewPCG(1, uint64(len(tensors))))
		for i := range values {
			values[i] = 0.1 * float32(random.NormFloat64())
		}
		tensors[name] = safetensors.Tensor{DType: "F32", Shape: shape, Data: kernels.F32.Bytes(values)}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "diffusion_pytorch_model.safetensors"))
	if err != nil {
		return err
	}
	if err := safetensors.Write(f, tensors, nil); err != nil {
		return err
	}
	return f.Close()
}
