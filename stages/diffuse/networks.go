package diffuse

import (
	"context"
	"strconv"

	"latentbeam/schemas"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/diffuse/shares"
)

// networks is the network of a portion as its sampler sees it. It computes all branches, and with guidance_interval only inside
// the interval. Outside it computes the branch of the prompt and copies its predictions to the others, so that guidance changes
// nothing.
type networks struct {
	branches     int
	all          sampler.Model
	partlyGuided bool            // only some steps are guided
	promptOnly   sampler.Model   // the branch of the prompt, if partlyGuided
	from, to     int             // the guided steps, if partlyGuided
	mag          *magPlan        // nil: no blocks are skipped
	each         []branchNetwork // the branches, if mag is set

	evaluations int // number of network evaluations, for one branch of the portion each
	rows        []float32
}

// guided reports whether all branches are computed in a step.
func (n *networks) guided(step int) bool { return !n.partlyGuided || step >= n.from && step < n.to }

// guidanceChanges reports whether guidance starts or stops at a step.
func (n *networks) guidanceChanges(step int) bool {
	return n.partlyGuided && (step == n.from || step == n.to)
}

// computed returns how many evaluations of one branch a step computes.
func (n *networks) computed(step int) int {
	if n.mag != nil {
		return n.mag.computed(step)
	}
	if n.guided(step) {
		return n.branches
	}
	return 1
}

// evaluate is a sampler.Model of a step.
func (n *networks) evaluate(ctx context.Context, step int, rows, timesteps []float32, generated []bool) ([]float32, error) {
	n.evaluations += n.computed(step)
	if n.mag != nil {
		return n.evaluateEach(ctx, step, rows, timesteps, generated)
	}
	if n.guided(step) {
		return n.all(ctx, rows, timesteps, generated)
	}
	first := func(length int) int { return length / n.branches }
	out, err := n.promptOnly(ctx, rows[:first(len(rows))], timesteps[:first(len(timesteps))], generated[:first(len(generated))])
	if err != nil {
		return nil, err
	}
	n.rows = n.rows[:0]
	for range n.branches {
		n.rows = append(n.rows, out...)
	}
	return n.rows, nil
}

// evaluateEach is evaluate for branches that skip blocks.
func (n *networks) evaluateEach(ctx context.Context, step int, rows, timesteps []float32, generated []bool) ([]float32, error) {
	n.rows = n.rows[:0]
	for i, b := range n.each {
		part := func(length, end int) int { return length / n.branches * (i + end) }
		if i > 0 && !n.guided(step) {
			n.rows = append(n.rows, n.rows[:len(n.rows)/i]...)
			continue
		}
		b.residual.Replay = n.mag.skip[step][i]
		out, err := b.Model(ctx, rows[part(len(rows), 0):part(len(rows), 1)], timesteps[part(len(timesteps), 0):part(len(timesteps), 1)],
			generated[part(len(generated), 0):part(len(generated), 1)])
		if err != nil {
			return nil, err
		}
		n.rows = append(n.rows, out...)
	}
	return n.rows, nil
}

// counted returns the network for a sampler that starts at the given step. It counts the steps.
func (n *networks) counted(step int) sampler.Model {
	return func(ctx context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
		step++
		return n.evaluate(ctx, step-1, rows, timesteps, generated)
	}
}

// guidedSteps returns the range of guided steps, computed as in diffusers (ClassifierFreeGuidance, start and stop). some is
// false if all steps are guided.
func (j *job) guidedSteps() (from, to int, some bool) {
	interval, steps := j.Options.GuidanceInterval, j.sampler.Steps()
	if len(interval) == 0 || j.branches() == 1 {
		return 0, steps, false
	}
	return int(interval[0] * float64(steps)), int(interval[1] * float64(steps)), true
}

// newNetworks returns a job's networks without the network itself.
func newNetworks(j *job) *networks {
	from, to, some := j.guidedSteps()
	n := &networks{branches: j.branches(), partlyGuided: some, from: from, to: to}
	n.mag = newMagPlan(j, n.guided)
	for step := range j.done {
		n.evaluations += n.computed(step)
	}
	return n
}

// networksOf returns the portion of this rank and its network. Tensors are allocated in the scope open at the call.
func (m maker) networksOf(j *job) (portion, *networks, error) {
	n := newNetworks(j)
	some := n.partlyGuided
	var err error
	if m.place == nil {
		for i := 0; n.mag != nil && err == nil && i < n.branches; i++ {
			one := branchNetwork{residual: &dit.Residual{}}
			one.Model, err = j.evaluator(m.dev, i, i+1, one.residual)
			n.each = append(n.each, one)
		}
		if n.mag != nil || err != nil {
			return portion{job: j}, n, err
		}
		if n.all, err = j.evaluator(m.dev, 0, j.branches(), nil); err == nil && some {
			n.promptOnly, err = j.evaluator(m.dev, 0, 1, nil)
		}
		return portion{job: j}, n, err
	}
	together := j.branches()
	if some || n.mag != nil {
		together = 1
	}
	ranks, err := j.ranks(m.place, m.speeds, together)
	if err != nil {
		return portion{}, nil, err
	}
	for _, r := range ranks {
		if n.mag != nil {
			n.each = append(n.each, branchNetwork{r.Evaluate, r.Residual})
		}
	}
	n.all = ranks[0].Evaluate
	if some {
		n.all, n.promptOnly = branchByBranch(ranks), ranks[0].Evaluate
	}
	return portion{j, ranks[0]}, n, nil
}

// branchByBranch returns a network that computes its branches one after another.
func branchByBranch(ranks []*shares.Rank) sampler.Model {
	var all []float32
	return func(ctx context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
		part := func(length, i int) (from, to int) { return length / len(ranks) * i, length / len(ranks) * (i + 1) }
		all = all[:0]
		for i, r := range ranks {
			from, to := part(len(rows), i)
			first, last := part(len(timesteps), i)
			begin, end := part(len(generated), i)
			out, err := r.Evaluate(ctx, rows[from:to], timesteps[first:last], generated[begin:end])
			if err != nil {
				return nil, err
			}
			all = append(all, out...)
		}
		return all, nil
	}
}

// skipsEvaluations reports whether a job may skip evaluations.
func (j *job) skipsEvaluations() bool {
	_, _, some := j.guidedSteps()
	return some || j.Options.Cache != nil
}

// readEvaluations records as readings how many evaluations were computed for the clips so far.
func (p portion) readEvaluations(computed int) {
	if !p.skipsEvaluations() {
		return
	}
	for _, e := range p.batch {
		readings := map[string]string{}
		for name, n := range map[string]int{schemas.ReadingComputed: computed, schemas.ReadingEvaluations: p.branches() * p.sampler.Steps()} {
			if e.Begun != nil {
				before, _ := strconv.Atoi(e.Begun.Readings[name]) // "" for the first clip
				n += before
			}
			readings[name] = strconv.Itoa(n)
		}
		e.Read(readings)
	}
}
