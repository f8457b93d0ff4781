package diffuse

import (
	"sync"

	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/shares"
	"latentbeam/stages/layout"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// ranks returns what a rank of a set computes of the batch: its columns, and its heads and blocks of the model. Each of the
// returned ranks computes the given number of branches together.
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
		batch := &shares.Batch{Description: &j.Description, Size: j.size, Branches: together, Given: j.givenFrames(), Plan: plan}
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

// plans caches the plans of a job by the number of branches computed together.
type plans struct {
	mu sync.Mutex
	of map[int]*sequence.Plan
}

// plan returns which rank computes what, for a number of branches. It chooses the allowed plan with the shortest predicted
// step, which `plan` prints too. It depends only on the speeds, so every process of a set gets the same plan.
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
