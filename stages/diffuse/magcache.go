package diffuse

import (
	"math"

	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
)

// magPlan says which evaluations leave the blocks of the network out, and add what they added at the last evaluation of the same branch
// (MagCache, arXiv:2506.09045, as its code has it for Wan 2.1 and 2.2). It is fixed by the number of steps, before the first one: the
// published ratios say how the magnitude of what they add changes. Their product over the steps left out, its distance from 1 added up,
// stays below the threshold; and no more than K steps after each other are left out.
//
// Its code computes evaluations without anything to add again too, where the retention is 0 or the second denoiser has few steps; there it
// fails, or adds what the other denoiser added.
type magPlan struct {
	asked, skip [][2]bool // of each step, by branch
}

// newMagPlan makes the plan of a sampling; nil where the job has no such cache. guided tells the steps with a second branch.
func newMagPlan(j *job, guided func(step int) bool) *magPlan {
	if !j.Options.UsesMagCache() || j.Magnitudes == nil {
		return nil
	}
	o, r, steps := j.Options.Cache, j.Magnitudes(j.batch[0].Row.Reference != ""), j.sampler.Steps()
	split := 0 // the first step of the second denoiser
	if j.experts != nil {
		for _, t := range j.sampler.Timesteps() {
			if t >= j.Boundary {
				split++
			}
		}
	}
	p := &magPlan{make([][2]bool, steps), make([][2]bool, steps)}
	for branch := range min(2, j.branches()) {
		ratios := interpolated(r.Ratios, branch, steps)
		ratio, sum, run, has := 1.0, 0.0, 0, false
		for step := range steps {
			if branch > 0 && !guided(step) {
				continue
			}
			p.asked[step][branch] = true
			if j.experts != nil && step == split {
				has = false
			}
			if !has || retained(2*step+branch, 2*steps, 2*split, j.experts != nil, r.FirstWhole, *o.Retention) {
				has = true
				continue
			}
			ratio *= ratios[step]
			sum += math.Abs(1 - ratio)
			if run++; sum < *o.Threshold && run <= *o.K {
				p.skip[step][branch] = true
				continue
			}
			ratio, sum, run = 1, 0, 0
		}
	}
	return p
}

// retained reports whether evaluation n of all is computed in any case. Evaluations of both branches are counted; from split on the second
// of two denoisers makes them.
func retained(n, all, split int, two, firstWhole bool, retention float64) bool {
	switch later := float64(all-split)*retention + float64(split); {
	case !two:
		return n < int(float64(all)*retention)
	case firstWhole:
		return n < int(later)
	default:
		return n < int(float64(split)*retention) || n >= split && float32(n) <= float32(later)
	}
}

// interpolated are the ratios of a branch for so many steps: the nearest of those that were measured, the first step having 1.
func interpolated(measured []float64, branch, steps int) []float64 {
	all := []float64{1}
	for i := branch; i < len(measured); i += 2 {
		all = append(all, measured[i])
	}
	if len(all) == steps {
		return all
	}
	if steps == 1 {
		return all[len(all)-1:]
	}
	scale := float64(len(all)-1) / float64(steps-1)
	out := make([]float64, steps)
	for i := range out {
		out[i] = all[int(math.RoundToEven(float64(i)*scale))]
	}
	return out
}

// computed is how many evaluations a step takes.
func (p *magPlan) computed(step int) (n int) {
	for branch, asked := range p.asked[step] {
		if asked && !p.skip[step][branch] {
			n++
		}
	}
	return n
}

// resumable reports whether a sampling can go on with a step without what the blocks added before: each branch computes when it is next
// asked.
func (p *magPlan) resumable(step int) bool {
	for branch := range 2 {
		for s := step; s < len(p.asked); s++ {
			if p.asked[s][branch] {
				if p.skip[s][branch] {
					return false
				}
				break
			}
		}
	}
	return true
}

// after hands on the states of the sampler from which a process can go on.
func (p *magPlan) after(next func(sampler.State) error) func(sampler.State) error {
	if p == nil || next == nil {
		return next
	}
	return func(s sampler.State) error {
		if !p.resumable(s.Done) {
			return nil
		}
		return next(s)
	}
}

// branchNetwork is the network for one branch, with what its blocks added.
type branchNetwork struct {
	sampler.Model
	residual *dit.Residual
}
