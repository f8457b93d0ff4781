package vae

import (
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/weights"
)

// dtypes are the types that an autoencoder can compute in. Only the autoencoders for single images support fp16, because their
// users run them so.
var dtypes = map[string]kernels.DType{"": kernels.F32, "fp32": kernels.F32, "bf16": kernels.BF16, "fp16": kernels.F16}

// Open opens the model's autoencoder for a stage. dtype is the value of the stage's option dtype.
func Open(m *stages.Model, stage, dtype string) (*weights.Component[Config, Model], error) {
	dt, ok := dtypes[dtype]
	if !ok {
		return nil, stages.Errorf("dtype", "%s: dtype is %q: give fp32, bf16, or with AutoencoderKL fp16", stage, dtype)
	}
	parse := func(data []byte) (Config, error) {
		c, err := ParseConfig(data)
		if err == nil && dt == kernels.F16 && c.Name != "AutoencoderKL" {
			return c, stages.Errorf("dtype",
				"%s: dtype is fp16: this autoencoder was published for bf16, give that or fp32", stage)
		}
		c.DType = dt
		return c, err
	}
	c, err := weights.OpenComponent(m, "vae", parse, Load)
	if err != nil {
		return nil, err
	}
	switch arch := c.Config.arch.(type) {
	case *klConfig:
		if arch.ScalingFactor != openSoraScale {
			c.Renew("its own scaling_factor") // earlier releases used 0.18215 for all models
		}
	case *openSora12Config:
		c.Config.Mean, c.Config.Std = arch.statistics(c.Numbers("shift"), c.Numbers("scale"))
	}
	return c, nil
}
