package diffuse

import (
	"math"

	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
)

// magPlan says which evaluations skip the blocks of the network and instead add what the blocks added at the last evaluation of
// the same branch (MagCache, arXiv:2506.09045, as its code does it for Wan 2.1 and 2.2). The plan follows from the number of
// steps before sampling starts. Published ratios say how the magnitude of the blocks' contribution changes from step to step.
// While steps are skipped, the product of the ratios is formed; the sum of its distances from 1 must stay below the threshold,
// and at most K steps in a row are skipped.
//
// The original code also skips evaluations when there is nothing to add yet, if the retention is 0 or the second denoiser has
// few steps. There it fails, or adds the other denoiser's contribution. This plan computes such evaluations.
type magPlan struct {
	needed, skip [][2]bool // for each step and branch: whether the branch is needed, and whether its blocks are skipped
}

// newMagPlan makes the plan of a sampling; nil if the job does not use magcache. guided reports whether a step has a second
// branch.
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
			p.needed[step][branch] = true
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

// retained reports whether evaluation n of all must be computed. Evaluations of both branches are counted. The second of two
// denoisers computes the evaluations from split on.
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

// interpolated returns the ratios of a branch for a number of steps. Each is the nearest measured ratio; the first step has 1.
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

// computed returns how many evaluations a step computes.
func (p *magPlan) computed(step int) (n int) {
	for branch, needed := range p.needed[step] {
		if needed && !p.skip[step][branch] {
			n++
		}
	}
	return n
}

// resumable reports whether a sampling can resume at a step without the blocks' earlier contribution: every branch must compute
// at its next evaluation.
func (p *magPlan) resumable(step int) bool {
	for branch := range 2 {
		for s := step; s < len(p.needed); s++ {
			if p.needed[s][branch] {
				if p.skip[s][branch] {
					return false
				}
				break
			}
		}
	}
	return true
}

// after returns a callback for the sampler that calls next only for states from which a process can resume.
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

// branchNetwork is the network for one branch, with the contribution of its blocks.
type branchNetwork struct {
	sampler.Model
	residual *dit.Residual
}
