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

// The number of steps of one sampling. A single step would be at timestep 0, where no noise is left to remove.
const (
	MinSteps = 2
	MaxSteps = trainSteps
)

// coefficients are the constants of one sampling step.
type coefficients struct {
	timestep  float32 // index in the training process, 0 to 999: what the network sees
	recip     float32 // sqrt(1 / alpha_bar)
	recipM1   float32 // sqrt(1 / alpha_bar - 1)
	mean0     float32 // factor of x_0 in the posterior mean
	meanT     float32 // factor of x_t in the posterior mean
	logBeta   float32 // upper end of the learned log variance
	logPost   float32 // lower end: the log of the posterior variance
	sqrtBar   float32 // sqrt(alpha_bar), factor of a given frame that is noised up to this step
	sqrtBarM1 float32 // sqrt(1 - alpha_bar), factor of the noise put on it
}

// rounding is applied to the result of every operation on the tables.
type rounding func(float64) float64

func exactly(v float64) float64 { return v }
func toFP32(v float64) float64  { return float64(float32(v)) }

// betas returns the betas of the training process, computed as numpy's linspace does.
func betas() []float64 {
	out := make([]float64, trainSteps)
	step := (betaEnd - betaStart) / (trainSteps - 1.0)
	for i := range out {
		out[i] = float64(i)*step + betaStart
	}
	out[trainSteps-1] = betaEnd
	return out
}

// spaceTimesteps returns n of the training timesteps, ascending. The stride is added up in floating point and each sum is
// rounded half to even, so 100 steps give 0, 10, 20, ... 50, 61, ... 999.
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

// schedule returns the coefficients of n steps, by ascending timestep: new betas that give the same alpha_bar at the chosen
// timesteps (section 4 of arXiv:2102.09672), and the posterior of each. The betas of the chosen timesteps are computed in fp64;
// later operations are rounded by r.
func schedule(n int, r rounding) ([]coefficients, error) {
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
	last, before := 1.0, 1.0
	product = 1.0
	for i, t := range timesteps {
		beta[i] = r(1 - trained[t]/last)
		last = trained[t]
		product *= r(1 - beta[i]) // torch computes a cumulative product of fp32 in fp64
		bar[i] = r(product)
		post[i] = r(r(beta[i]*r(1-before)) / r(1-bar[i]))
		before = bar[i]
	}
	out := make([]coefficients, n)
	before = 1.0
	for i, t := range timesteps {
		rest := r(1 - bar[i])
		recip := r(1 / bar[i])
		out[i] = coefficients{
			timestep:  float32(t),
			recip:     float32(math.Sqrt(recip)),
			recipM1:   float32(math.Sqrt(r(recip - 1))),
			mean0:     float32(r(beta[i]*r(math.Sqrt(before))) / rest),
			meanT:     float32(r(r(1-before)*r(math.Sqrt(r(1-beta[i])))) / rest),
			logBeta:   float32(math.Log(beta[i])),
			logPost:   float32(math.Log(post[max(i, 1)])), // the first variance is 0, so the second is used
			sqrtBar:   float32(math.Sqrt(bar[i])),
			sqrtBarM1: float32(math.Sqrt(rest)),
		}
		before = bar[i]
	}
	return out, nil
}
