package sampler

import (
	"cmp"
	"fmt"
	"math"
)

// WanConfig says how Wan and similar models are sampled.
type WanConfig struct {
	// Solver is unipc (the published one), euler (FlowMatchEulerDiscreteScheduler), or dmd for models distilled to three steps
	// (FastWan).
	Solver string
	// Sigmas names the table of noise levels. UniPC has diffusers and wan (the original code); Euler has diffusers and
	// distilled (lightx2v's four-step models); DMD has one table.
	Sigmas string
	// Shift moves the steps towards the noise. It is above 0; usual values are 3 for 480p and 5 for 720p.
	Shift float64
}

// The values of WanConfig.
const (
	solverUniPC, solverEuler, solverDMD = "unipc", "euler", "dmd"

	sigmasDiffusers, sigmasWan, sigmasDistilled = "diffusers", "wan", "distilled"
)

// WanSolvers returns the values of WanConfig.Solver.
func WanSolvers() []string { return []string{solverUniPC, solverEuler, solverDMD} }

// Distilled reports whether the configuration is for a model of few steps, which has its own shift.
func (c WanConfig) Distilled() bool { return c.Solver == solverDMD || c.Sigmas == sigmasDistilled }

// maxShift limits WanConfig.Shift. Published values are between 3 and 12.
const maxShift = 1 << 10

// Wan returns the recipe of a configuration. Empty fields have the values of the published scheduler: unipc, diffusers, and
// shift 3 (8 for dmd, 5 for distilled). An error starts with the wrong option: flow_solver, flow_sigmas or flow_shift.
func Wan(c WanConfig) (Recipe, error) {
	r := Recipe{NumInferenceSteps: 50, GuidanceScale: 5}
	shift := 3.0
	switch {
	case c.Solver == solverDMD:
		r, shift = Recipe{NumInferenceSteps: len(dmdTimesteps), GuidanceScale: 1}, 8
	case c.Sigmas == sigmasDistilled:
		r, shift = Recipe{NumInferenceSteps: 4, GuidanceScale: 1}, 5
	}
	c.Solver, c.Sigmas, c.Shift = cmp.Or(c.Solver, solverUniPC), cmp.Or(c.Sigmas, sigmasDiffusers), cmp.Or(c.Shift, shift)
	switch {
	case c.Solver != solverUniPC && c.Solver != solverEuler && c.Solver != solverDMD:
		return Recipe{}, fmt.Errorf("flow_solver is %q: give unipc, euler or dmd", c.Solver)
	case c.Sigmas != sigmasDiffusers && c.Sigmas != sigmasWan && c.Sigmas != sigmasDistilled:
		return Recipe{}, fmt.Errorf("flow_sigmas is %q: give diffusers, wan or distilled", c.Sigmas)
	case c.Solver == solverDMD && c.Sigmas != sigmasDiffusers:
		return Recipe{}, fmt.Errorf("flow_sigmas is %s: dmd has a table of its own, leave it out", c.Sigmas)
	case c.Solver == solverEuler && c.Sigmas == sigmasWan:
		return Recipe{}, fmt.Errorf("flow_sigmas is %s: only unipc has that table, euler has those of diffusers and distilled",
			c.Sigmas)
	case c.Solver == solverUniPC && c.Sigmas == sigmasDistilled:
		return Recipe{}, fmt.Errorf("flow_sigmas is %s: only euler has that table; add flow_solver: euler", c.Sigmas)
	case !(c.Shift > 0 && c.Shift <= maxShift):
		return Recipe{}, fmt.Errorf("flow_shift is %g: give a number above 0, at most %d", c.Shift, maxShift)
	}
	r.Method = c
	return r, nil
}

// Check returns an error for unsupported numbers of steps; see Method. c is the configuration of a Recipe that Wan returned.
func (c WanConfig) Check(r Row) error {
	if c.Solver == solverDMD && r.NumInferenceSteps != len(dmdTimesteps) {
		return fmt.Errorf("num_inference_steps is %d: dmd has %d", r.NumInferenceSteps, len(dmdTimesteps))
	}
	return nil
}

// New returns the sampler of a row; see Method.
func (c WanConfig) New(r Row) (Sampler, error) {
	n := r.NumInferenceSteps
	switch {
	case c.Solver == solverDMD:
		return newFlowDMD(c.Shift), nil
	case c.Sigmas == sigmasDistilled:
		return newDistilledEuler(n, c.Shift), nil
	case c.Solver == solverEuler:
		return newFlowEuler(n, c.Shift), nil
	}
	return newUniPC(wanSigmas(n, c)), nil
}

// shifted returns sigma moved towards the noise.
func shifted(sigma, shift float64) float64 { return shift * sigma / (1 + (shift-1)*sigma) }

// wanSigmas returns the noise levels for n steps of UniPC, starting with the noise, in fp64. The first is below 1, because the
// solver's logarithms are not defined at 1.
func wanSigmas(n int, c WanConfig) []float64 {
	first, last := 1.0, 1.0/flowTimesteps
	if c.Sigmas == sigmasWan {
		first, last = float64(float32(1-last)), 0 // the original code rounds its table to fp32
	}
	out := make([]float64, n)
	step := (last - first) / float64(n)
	for i := range out {
		out[i] = shifted(first+float64(float64(i)*step), c.Shift)
	}
	if c.Sigmas == sigmasDiffusers && math.Abs(out[0]-1) < 1e-6 {
		out[0] -= 1e-6
	}
	return out
}
