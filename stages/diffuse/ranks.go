package diffuse

import (
	"sync"

	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/shares"
	"latentbeam/stages/layout"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// ranks returns what a rank of a set computes of the batch, for so many branches together each: its columns, and of the
// model its heads and blocks.
func (j *job) ranks(place *nn.GridRank, speeds []float64, together int) (out []*shares.Rank, err error) {
	plan, err := j.plan(speeds, together)
	if err != nil {
		return nil, err
	}
	heads, err := place.Cut.Heads(j.Heads)
	if err != nil {
		return nil, err
	}
	if heads.Len() < j.Heads {
		if plan, err = plan.WithHeads(heads.Len()); err != nil {
			return nil, err
		}
	}
	model, err := j.model(place.Dev, place.Stage)
	for branch := 0; err == nil && branch < j.branches(); branch += together {
		batch := &shares.Batch{Description: &j.Description, Size: j.size, Branches: together, Given: j.given(), Plan: plan}
		if j.Options.UsesMagCache() {
			batch.Residual = &dit.Residual{}
		}
		for _, e := range j.batch {
			for k := range together {
				batch.Rows = append(batch.Rows, dit.BatchRow{Element: e, Branch: branch + k})
			}
		}
		var r *shares.Rank
		r, err = batch.NewRank(place.Dev, place.Sequence, model)
		out = append(out, r)
	}
	return out, err
}

// plans are those of a job by the branches that go together, once they are made.
type plans struct {
	mu sync.Mutex
	of map[int]*sequence.Plan
}

// plan says which rank does what of so many branches: the allowed way to share with the shortest predicted step, as
// `plan` shows it. It depends on the speeds alone, so every process of a set comes to the same.
func (j *job) plan(speeds []float64, branches int) (*sequence.Plan, error) {
	j.plans.mu.Lock()
	defer j.plans.mu.Unlock()
	if plan, ok := j.plans.of[branches]; ok {
		return plan, nil
	}
	cost, err := j.Cost(&j.batch[0].Row)
	if err != nil {
		return nil, err
	}
	cost.Split.Shape.Batch = branches
	f, err := layout.Cheapest(*cost.Split, len(j.batch), layout.Ranks(speeds))
	if err == nil {
		j.plans.of = map[int]*sequence.Plan{branches: f.Plan}
	}
	return f.Plan, err
}
