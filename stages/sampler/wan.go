package sampler

import (
	"cmp"
	"fmt"
	"math"
)

// WanConfig is how Wan and the models of its class are sampled.
type WanConfig struct {
	// Solver is unipc (the published one) or euler (FlowMatchEulerDiscreteScheduler).
	Solver string
	// Sigmas names the published table of UniPC: diffusers or wan (that of the original code). Euler has that of
	// diffusers alone.
	Sigmas string
	// Shift moves the steps towards the noise: above 0, 3 for 480 rows as a rule and 5 for 720.
	Shift float64
}

// maxShift bounds WanConfig.Shift, far beyond the published 3 to 12.
const maxShift = 1 << 10

// Wan returns the recipe of a configuration. Empty fields are those of the published scheduler: unipc, diffusers
// and shift 3. An error begins with the option that is wrong: flow_solver, flow_sigmas or flow_shift.
func Wan(c WanConfig) (Recipe, error) {
	c.Solver, c.Sigmas, c.Shift = cmp.Or(c.Solver, "unipc"), cmp.Or(c.Sigmas, "diffusers"), cmp.Or(c.Shift, 3)
	switch {
	case c.Solver != "unipc" && c.Solver != "euler":
		return Recipe{}, fmt.Errorf("flow_solver is %q: give unipc or euler", c.Solver)
	case c.Sigmas != "diffusers" && c.Sigmas != "wan":
		return Recipe{}, fmt.Errorf("flow_sigmas is %q: give diffusers or wan", c.Sigmas)
	case c.Solver == "euler" && c.Sigmas != "diffusers":
		return Recipe{}, fmt.Errorf("flow_sigmas is %s: only unipc has that table, euler has that of diffusers", c.Sigmas)
	case !(c.Shift > 0 && c.Shift <= maxShift):
		return Recipe{}, fmt.Errorf("flow_shift is %g: give a number above 0, at most %d", c.Shift, maxShift)
	}
	return Recipe{NumInferenceSteps: 50, GuidanceScale: 5, wan: c}, nil
}

// new returns the sampler of n steps.
func (c WanConfig) new(n int) Sampler {
	if c.Solver == "euler" {
		return newFlowEuler(n, c.Shift)
	}
	return newUniPC(wanSigmas(n, c))
}

// shifted is sigma moved towards the noise.
func shifted(sigma, shift float64) float64 { return shift * sigma / (1 + (shift-1)*sigma) }

// wanSigmas returns the noise levels of n steps of UniPC, from the noise on, in fp64. The first one stays below 1, at
// which the solver's logarithms end.
func wanSigmas(n int, c WanConfig) []float64 {
	first, last := 1.0, 1.0/flowTimesteps
	if c.Sigmas == "wan" {
		first, last = float64(float32(1-last)), 0 // the original's table goes through fp32
	}
	out := make([]float64, n)
	step := (last - first) / float64(n)
	for i := range out {
		out[i] = shifted(first+float64(float64(i)*step), c.Shift)
	}
	if c.Sigmas == "diffusers" && math.Abs(out[0]-1) < 1e-6 {
		out[0] -= 1e-6
	}
	return out
}
