package nn

import (
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// SinusoidWidth is the published width of the timestep sinusoid: 128 cosines and 128 sines.
const SinusoidWidth = 256

// TimestepEmbedder turns a diffusion timestep into a vector: sinusoid, Linear, SiLU, Linear.
type TimestepEmbedder struct {
	L0, L2 Linear // mlp.0 (C, W), mlp.2 (C, C)
	Width  int    // W of the sinusoid, even
}

// LoadTimestepEmbedder reads "mlp.0" (C, 256) and "mlp.2" (C, C), with biases.
func LoadTimestepEmbedder(w *weights.Weights, c int) TimestepEmbedder {
	return TimestepEmbedder{Width: SinusoidWidth,
		L0: LoadLinear(w.Sub("mlp.0"), SinusoidWidth, c), L2: LoadLinear(w.Sub("mlp.2"), c, c),
	}
}

// Forward embeds the timesteps of a batch in type dt: (B) -> (B, C). The sinusoid is computed in fp32.
func (e TimestepEmbedder) Forward(be kernels.Backend, dt kernels.DType, timesteps []float32) kernels.Tensor {
	s := be.Alloc(dt, len(timesteps), e.Width) // (B, W)
	be.Upload(s, Sinusoid(timesteps, e.Width))
	return e.L2.Forward(be, e.L0.Forward(be, s, kernels.SiLU), kernels.Identity)
}

// SizeEmbedder embeds scalars that describe a video, such as its height and width, like timesteps.
type SizeEmbedder struct {
	TimestepEmbedder
}

// LoadSizeEmbedder reads "mlp.0" (width, 256) and "mlp.2" (width, width), with biases.
func LoadSizeEmbedder(w *weights.Weights, width int) SizeEmbedder {
	return SizeEmbedder{LoadTimestepEmbedder(w, width)}
}

// Forward embeds n scalars of each row, rounded to dt, and joins the results: values (B, n) -> (B, n width).
func (e SizeEmbedder) Forward(be kernels.Backend, dt kernels.DType, values [][]float64) kernels.Tensor {
	var flat []float32
	for _, row := range values {
		for _, v := range row {
			flat = append(flat, dt.Round(float32(v)))
		}
	}
	y := e.TimestepEmbedder.Forward(be, dt, flat) // (B n, width)
	return y.Reshape(len(values), len(flat)/len(values)*y.Dim(1))
}

// Sinusoid returns width values for each t: first cos(t f_k), then sin(t f_k), with f_k = 10000^(-2k/width). Frequencies and
// angles are rounded to fp32 as in the reference: at t = 999 the rounding of an angle changes the fifth digit.
func Sinusoid(timesteps []float32, width int) []float32 {
	half := width / 2
	out := make([]float32, 0, len(timesteps)*width)
	freq := make([]float32, half)
	for k := range freq {
		exponent := float32(-math.Log(10000)) * float32(k) / float32(half)
		freq[k] = float32(math.Exp(float64(exponent)))
	}
	for _, t := range timesteps {
		for _, f := range freq {
			out = append(out, float32(math.Cos(float64(t*f))))
		}
		for _, f := range freq {
			out = append(out, float32(math.Sin(float64(t*f))))
		}
	}
	return out
}
