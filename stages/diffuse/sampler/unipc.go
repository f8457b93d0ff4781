package sampler

import (
	"context"
	"math"
	"slices"
)

// UniPC is the multistep predictor and corrector of arXiv:2302.04867 in the form that Wan uses: order 2, B(h) = e^h - 1,
// prediction of the data from a velocity, and order 1 in the last step.
type UniPC struct {
	timetable           // whole numbers
	sigmas    []float64 // for each step, rounded to fp32, followed by 0
}

// newUniPC returns the sampler with these noise levels.
func newUniPC(sigmas []float64) *UniPC {
	s := &UniPC{}
	for _, sigma := range sigmas {
		s.timesteps = append(s.timesteps, float32(math.Trunc(sigma*flowTimesteps)))
		s.sigmas = append(s.sigmas, toFP32(sigma))
	}
	s.sigmas = append(s.sigmas, 0)
	return s
}

// Sample runs the steps; see Sampler. No noise is drawn. Given frames stay as they are.
func (s *UniPC) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	u := &uniRun{UniPC: s}
	u.recall(b.From)
	return Loop{Name: "unipc", Timesteps: s.timesteps, Step: u.step, Remembers: s.remembers, Memory: u.memory}.
		Sample(ctx, b, z, model, noise, progress)
}

// uniRun is one call of UniPC.Sample. Its slices have the layout of r.z.
type uniRun struct {
	*UniPC
	data    []float32 // predicted by this step
	before  []float32 // predicted by the step before
	earlier []float32 // predicted two steps before
	last    []float32 // corrected z of the step before
	order   int       // order of the predictor in the step before
}

// step corrects z with the velocity of step i and predicts z of the next step.
func (u *uniRun) step(r *Run, i int) {
	u.earlier, u.before, u.data = u.before, u.data, u.earlier
	if u.data == nil {
		u.data = make([]float32, len(r.z))
	}
	sigma := float32(u.sigmas[i])
	for e := range r.N {
		x, m := r.Latents(e), u.data[r.starts[e]:r.starts[e+1]]
		for j, v := range r.Prediction(e) {
			m[j] = x[j] - float32(sigma*v)
		}
	}
	if i > 0 {
		u.correct(r.z, i)
	}
	if u.last == nil {
		u.last = slices.Clone(r.z)
	} else {
		copy(u.last, r.z)
	}
	u.predict(r.z, i)
}

// lambda returns half the log of the signal-to-noise ratio at step i.
func (s *UniPC) lambda(i int) float64 { return math.Log(1-s.sigmas[i]) - math.Log(s.sigmas[i]) }

// predict replaces z of step i by the predicted z of step i+1.
func (u *uniRun) predict(z []float32, i int) {
	u.order = u.orderOf(i)
	next := u.sigmas[i+1]
	if next == 0 { // z is the data
		copy(z, u.data)
		return
	}
	h := u.lambda(i+1) - u.lambda(i)
	b := (1 - next) * math.Expm1(-h)
	keep, of := float32(next/u.sigmas[i]), float32(b)
	if u.order == 1 {
		for j, m := range u.data {
			z[j] = float32(keep*z[j]) - float32(of*m)
		}
		return
	}
	slope := float32(b * 0.5 * h / (u.lambda(i-1) - u.lambda(i)))
	for j, m := range u.data {
		z[j] = float32(keep*z[j]) - float32(of*m) - float32(slope*(u.before[j]-m))
	}
}

// correct replaces the z that step i-1 predicted for step i. It also uses the data predicted at step i, which is not predicted
// again.
func (u *uniRun) correct(z []float32, i int) {
	sigma := u.sigmas[i]
	h := u.lambda(i) - u.lambda(i-1)
	e := math.Expm1(-h)
	b := (1 - sigma) * e
	keep, of := float32(sigma/u.sigmas[i-1]), float32(b)
	if u.order == 1 {
		slope := float32(b * 0.5)
		for j, m := range u.before {
			z[j] = float32(keep*u.last[j]) - float32(of*m) - float32(slope*(u.data[j]-m))
		}
		return
	}
	f2 := e/-h - 1
	f3 := f2/-h - 0.5
	b1, b2 := f2/e, 2*f3/e
	r := (u.lambda(i-2) - u.lambda(i-1)) / h
	rho1 := (b1 - b2) / (1 - r)
	back, ahead := float32(b*rho1/r), float32(b*(b1-rho1))
	for j, m := range u.before {
		z[j] = float32(keep*u.last[j]) - float32(of*m) - float32(back*(u.earlier[j]-m)) - float32(ahead*(u.data[j]-m))
	}
}
