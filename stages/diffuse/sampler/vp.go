package sampler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// VPConfig says how a model of the variance-preserving process (arXiv:2006.11239, 1000 linear betas) is sampled. It follows the
// schedulers of diffusers.
type VPConfig struct {
	Solver     string // euler_ancestral (EulerAncestralDiscreteScheduler) or pndm (PNDMScheduler)
	Prediction string // what the network predicts: epsilon or v_prediction
	Spacing    string // how steps are spread over the training process: linspace, leading or trailing
	ZeroSNR    bool   // rescale the betas so that the last level is pure noise (arXiv:2305.08891)
}

// The values of VPConfig.
const (
	solverAncestral, solverPNDM = "euler_ancestral", "pndm"

	predictionEpsilon, predictionV = "epsilon", "v_prediction"

	spacingLinspace, spacingLeading, spacingTrailing = "linspace", "leading", "trailing"
)

// VPSolvers returns the values of VPConfig.Solver.
func VPSolvers() []string { return []string{solverAncestral, solverPNDM} }

// pndmLeast is the smallest number of steps of PNDM. Its first three steps are Runge-Kutta steps.
const pndmLeast = 4

// VP returns the recipe of a configuration. Empty fields have the defaults of the scheduler's class: euler_ancestral with
// epsilon and linspace, or pndm with epsilon and leading. An error starts with the wrong option: sample_method,
// prediction_type, timestep_spacing or rescale_betas_zero_snr.
func VP(c VPConfig) (Recipe, error) {
	c.Solver, c.Prediction = cmp.Or(c.Solver, solverAncestral), cmp.Or(c.Prediction, predictionEpsilon)
	if c.Spacing == "" {
		c.Spacing = map[string]string{solverAncestral: spacingLinspace, solverPNDM: spacingLeading}[c.Solver]
	}
	switch {
	case c.Solver != solverAncestral && c.Solver != solverPNDM:
		return Recipe{}, fmt.Errorf("sample_method is %q: give euler_ancestral or pndm", c.Solver)
	case c.Prediction != predictionEpsilon && c.Prediction != predictionV:
		return Recipe{}, fmt.Errorf("prediction_type is %q: give epsilon or v_prediction", c.Prediction)
	case !slices.Contains([]string{spacingLinspace, spacingLeading, spacingTrailing}, c.Spacing):
		return Recipe{}, fmt.Errorf("timestep_spacing is %q: give linspace, leading or trailing", c.Spacing)
	case c.Solver == solverPNDM && c.ZeroSNR:
		return Recipe{}, fmt.Errorf("rescale_betas_zero_snr is true: pndm cannot do it, leave it out")
	}
	return Recipe{NumInferenceSteps: 100, GuidanceScale: 7.5, Method: c}, nil
}

// zeroLast is the last timestep whose sigma is below the largest sigma, except the timestep of pure noise. The largest sigma,
// 4096, replaces the infinite sigma of rescaled betas.
const zeroLast = 995

// Check returns an error for unsupported numbers of steps; see Method. c is the configuration of a Recipe that VP returned.
func (c VPConfig) Check(r Row) error {
	n := r.NumInferenceSteps
	if c.Solver == solverPNDM && n < pndmLeast {
		return fmt.Errorf("num_inference_steps is %d: pndm needs %d or more", n, pndmLeast)
	}
	if c.ZeroSNR && n > 1 && c.steps(n)[1] > zeroLast {
		return fmt.Errorf("num_inference_steps is %d: with rescale_betas_zero_snr the second step would have more noise than the "+
			"first: give fewer, such as %d", n, trainSteps/(trainSteps-1-zeroLast))
	}
	return nil
}

// refuseGivenFrames returns an error if the batch has given frames. The samplers of this process do not support them.
func (b Batch) refuseGivenFrames(name string) error {
	if b.Masks != nil || b.Image != nil {
		return fmt.Errorf("%s: frames cannot be given", name)
	}
	return nil
}

// New returns the sampler of a row; see Method.
func (c VPConfig) New(r Row) (Sampler, error) {
	if c.Solver == solverPNDM {
		return newPNDM(r.NumInferenceSteps, c), nil
	}
	return newEulerAncestral(r.NumInferenceSteps, c), nil
}

// alphaBars returns the cumulative products of 1 - beta in the training process, in fp32 as torch computes them.
func (c VPConfig) alphaBars() []float32 {
	step := float32(betaEnd-betaStart) / (trainSteps - 1)
	alphas := make([]float32, trainSteps)
	for i := range alphas { // torch.linspace goes from both ends to the middle
		beta := float32(betaStart) + float32(step*float32(i))
		if i >= trainSteps/2 {
			beta = float32(betaEnd) - float32(step*float32(trainSteps-1-i))
		}
		alphas[i] = 1 - beta
	}
	bars := products(alphas)
	if !c.ZeroSNR {
		return bars
	}
	bars = products(zeroTerminal(bars))
	bars[trainSteps-1] = 0x1p-24 // not 0, so that the first sigma is finite
	return bars
}

// products returns the cumulative products, computed in fp64 as torch does.
func products(values []float32) []float32 {
	out, product := make([]float32, len(values)), 1.0
	for i, v := range values {
		product *= float64(v)
		out[i] = float32(product)
	}
	return out
}

// zeroTerminal rescales alpha_bar so that the process ends in pure noise and starts unchanged.
func zeroTerminal(bars []float32) []float32 {
	roots := make([]float32, len(bars))
	for i, b := range bars {
		roots[i] = float32(math.Sqrt(float64(b)))
	}
	first, last := roots[0], roots[len(roots)-1]
	for i := range roots {
		roots[i] = float32((roots[i] - last) * (first / (first - last)))
	}
	out := make([]float32, len(bars))
	before := float32(1)
	for i, r := range roots {
		bar := float32(r * r)
		out[i] = 1 - (1 - bar/before) // via the betas
		before = bar
	}
	return out
}

// steps returns the timesteps of n steps, descending.
func (c VPConfig) steps(n int) []float32 {
	out := make([]float32, n)
	switch c.Spacing {
	case spacingLinspace:
		for i := range out {
			out[n-1-i] = float32(float64(i) * ((trainSteps - 1) / float64(max(1, n-1))))
		}
	case spacingLeading:
		for i := range out {
			out[n-1-i] = float32(i * (trainSteps / n))
		}
	default:
		for i := range out {
			out[i] = float32(math.RoundToEven(trainSteps-float64(i)*(trainSteps/float64(n)))) - 1
		}
	}
	return out
}

// sigmas returns the noise levels of timesteps, followed by 0. Timesteps may lie between the training timesteps.
func (c VPConfig) sigmas(timesteps []float32) []float32 {
	var table []float64
	for _, bar := range c.alphaBars() {
		table = append(table, float64(float32(math.Sqrt(float64((1-bar)/bar)))))
	}
	var out []float32
	for _, t := range timesteps {
		at := min(int(t), trainSteps-2)
		part := float64(t) - float64(at)
		out = append(out, float32(table[at]+float64((table[at+1]-table[at])*part)))
	}
	return append(out, 0)
}
