package sampler

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// PNDM is PNDMScheduler of diffusers: three Runge-Kutta steps with four evaluations each, then linear multistep of order 4
// (arXiv:2202.09778). n steps need n + 9 evaluations.
type PNDM struct {
	timetable           // of the evaluations
	bars      []float32 // alpha_bar of the training process
	stride    int       // distance of two steps in the training process
	velocity  bool      // the network predicts v, not the noise
}

// rungeKutta is the number of evaluations in the Runge-Kutta steps.
const rungeKutta = 12

func newPNDM(n int, c VPConfig) *PNDM {
	s := &PNDM{bars: c.alphaBars(), stride: trainSteps / n, velocity: c.Prediction == predictionV}
	whole := c.steps(n)
	for i, t := range whole {
		if whole[i] = t; c.Spacing == spacingLinspace {
			whole[i] = float32(math.RoundToEven(float64(t)))
		}
	}
	half := float32(s.stride / 2)
	for i := range 3 { // each step: its start, its middle twice, its end
		s.timesteps = append(s.timesteps, whole[i], whole[i+1]+half, whole[i+1]+half, whole[i+1])
	}
	s.timesteps = append(s.timesteps, whole[3:]...)
	return s
}

// Signature names the sampler with its tables.
func (s *PNDM) Signature() string {
	name := solverPNDM
	if s.velocity {
		name += "/v"
	}
	return Signature(name, toFloat64(s.timesteps), toFloat64(s.bars), []float64{float64(s.stride)})
}

// Sample runs the steps; see Sampler. It draws no noise and does not support given frames.
func (s *PNDM) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	if err := b.refuseGivenFrames(solverPNDM); err != nil {
		return err
	}
	u := &pndmRun{PNDM: s}
	for _, m := range b.From.Memory {
		u.recall(m)
	}
	return Loop{Name: solverPNDM, Timesteps: s.timesteps, Step: u.step, Remembers: s.remembers, Memory: u.memory}.
		Sample(ctx, b, z, model, noise, progress)
}

// The tensors that PNDM remembers: outputs of earlier evaluations, the newest first. Inside a Runge-Kutta step also the sum of
// its outputs and the latents at its start.
const (
	pndmSum   = "sum"
	pndmBegin = "begin"
)

// outputs returns how many outputs are remembered after done evaluations.
func (s *PNDM) outputs(done int) int {
	if done < rungeKutta {
		return (done + 3) / 4
	}
	return 3
}

// remembers returns the names of the tensors that are remembered after done evaluations.
func (s *PNDM) remembers(done int) (names []string) {
	for i := range s.outputs(done) {
		names = append(names, fmt.Sprint("output", i))
	}
	if done < rungeKutta && done%4 > 0 {
		names = append(names, pndmSum, pndmBegin)
	}
	return names
}

// pndmRun is the state of one Sample call.
type pndmRun struct {
	*PNDM
	outs       [][]float32 // oldest first
	sum, begin []float32
}

func (u *pndmRun) memory(done int) (out []History) {
	for _, name := range u.remembers(done) {
		switch name {
		case pndmSum:
			out = append(out, History{name, u.sum})
		case pndmBegin:
			out = append(out, History{name, u.begin})
		default:
			out = append(out, History{name, u.outs[len(u.outs)-1-len(out)]})
		}
	}
	return out
}

func (u *pndmRun) recall(m History) {
	values := slices.Clone(m.Values)
	switch m.Name {
	case pndmSum:
		u.sum = values
	case pndmBegin:
		u.begin = values
	default:
		u.outs = slices.Insert(u.outs, 0, values)
	}
}

// step advances all elements after evaluation i.
func (u *pndmRun) step(r *Run, i int) {
	var out []float32
	for e := range r.N {
		out = append(out, r.row(0, e)[:r.starts[e+1]-r.starts[e]]...)
	}
	if i < rungeKutta {
		u.rungeKutta(r, i, out)
		return
	}
	u.outs = append(u.outs[max(0, len(u.outs)-3):], out)
	at, n := int(u.timesteps[i]), len(u.outs)
	mixed := make([]float32, len(out))
	for j := range mixed {
		mixed[j] = (float32(55*u.outs[n-1][j]) - float32(59*u.outs[n-2][j]) + float32(37*u.outs[n-3][j]) -
			float32(9*u.outs[n-4][j])) * (1.0 / 24)
	}
	u.advance(r.z, r.z, mixed, at, at-u.stride)
}

// rungeKutta processes an evaluation of a Runge-Kutta step.
func (u *pndmRun) rungeKutta(r *Run, i int, out []float32) {
	from := int(u.timesteps[i/4*4])
	to := int(u.timesteps[i])
	if i%2 == 0 {
		to -= u.stride / 2
	}
	weight := [4]float32{1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}[i%4]
	if i%4 == 0 {
		u.outs = append(u.outs, out)
		u.begin, u.sum = slices.Clone(r.z), make([]float32, len(out))
	}
	for j, v := range out {
		u.sum[j] += float32(weight * v)
	}
	if i%4 == 3 {
		out = u.sum
	}
	u.advance(r.z, u.begin, out, from, to)
}

// advance writes to dst the latents that x becomes between two timesteps, for this output of the network.
func (u *pndmRun) advance(dst, x, out []float32, from, to int) {
	bar, next := u.bars[from], u.bars[0]
	if to >= 0 {
		next = u.bars[to]
	}
	root := func(v float32) float32 { return float32(math.Sqrt(float64(v))) }
	keep := root(next / bar)
	by := float32(bar*root(1-next)) + root(float32(float32(bar*(1-bar))*next))
	a, b := root(bar), root(1-bar)
	for j, v := range out {
		if u.velocity {
			v = float32(a*v) + float32(b*x[j])
		}
		dst[j] = float32(keep*x[j]) - float32((next-bar)*v)/by
	}
}
