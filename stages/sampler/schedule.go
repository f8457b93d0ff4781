package sampler

import (
	"fmt"
	"math"
)

// The diffusion process that Open-Sora 1.0 was trained on: 1000 linear betas (arXiv:2006.11239).
const (
	trainSteps = 1000
	betaStart  = 1e-4
	betaEnd    = 0.02
)

// Steps of one sampling run. One step would be at timestep 0, where nothing is left to remove.
const (
	MinSteps = 2
	MaxSteps = trainSteps
)

// coefficients are the constants of one sampling step, computed in fp64 and rounded once.
type coefficients struct {
	timestep float32 // index in the training process, 0 to 999: what the network sees
	recip    float32 // sqrt(1 / alpha_bar)
	recipM1  float32 // sqrt(1 / alpha_bar - 1)
	mean0    float32 // factor of x_0 in the posterior mean
	meanT    float32 // factor of x_t in the posterior mean
	logBeta  float32 // upper end of the learned log variance
	logPost  float32 // lower end: the log of the posterior variance
}

// betas returns the training process as numpy's linspace makes it.
func betas() []float64 {
	out := make([]float64, trainSteps)
	step := (betaEnd - betaStart) / (trainSteps - 1.0)
	for i := range out {
		out[i] = float64(i)*step + betaStart
	}
	out[trainSteps-1] = betaEnd
	return out
}

// spaceTimesteps picks n of the training timesteps, ascending: the stride is added up in floating point
// and each sum rounded half to even, so 100 steps give 0, 10, 20, ... 50, 61, ... 999.
func spaceTimesteps(n int) []int {
	stride := float64(trainSteps-1) / float64(n-1)
	out := make([]int, n)
	at := 0.0
	for i := range out {
		out[i] = int(math.RoundToEven(at))
		at += stride
	}
	return out
}

// schedule returns the coefficients of n steps, by ascending timestep: new betas that keep the products
// alpha_bar of the chosen timesteps (section 4 of arXiv:2102.09672), and the posterior of each.
func schedule(n int) ([]coefficients, error) {
	if n < MinSteps || n > MaxSteps {
		return nil, fmt.Errorf("iddpm: num_inference_steps is %d, must be %d to %d", n, MinSteps, MaxSteps)
	}
	trained := make([]float64, trainSteps) // alpha_bar of the training process
	product := 1.0
	for i, b := range betas() {
		product *= 1 - b
		trained[i] = product
	}
	timesteps := spaceTimesteps(n)
	beta, bar, post := make([]float64, n), make([]float64, n), make([]float64, n)
	last := 1.0
	product = 1.0
	for i, t := range timesteps {
		beta[i] = 1 - trained[t]/last
		last = trained[t]
		before := product
		product *= 1 - beta[i]
		bar[i] = product
		post[i] = beta[i] * (1 - before) / (1 - bar[i])
	}
	out := make([]coefficients, n)
	for i, t := range timesteps {
		before := 1.0
		if i > 0 {
			before = bar[i-1]
		}
		out[i] = coefficients{
			timestep: float32(t),
			recip:    float32(math.Sqrt(1 / bar[i])),
			recipM1:  float32(math.Sqrt(1/bar[i] - 1)),
			mean0:    float32(beta[i] * math.Sqrt(before) / (1 - bar[i])),
			meanT:    float32((1 - before) * math.Sqrt(1-beta[i]) / (1 - bar[i])),
			logBeta:  float32(math.Log(beta[i])),
			// The variance at the first timestep is 0; the reference takes the second's log there.
			logPost: float32(math.Log(post[max(i, 1)])),
		}
	}
	return out, nil
}
