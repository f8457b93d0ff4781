package pipelines

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/engine/memory"
	"latentbeam/internal/lend"
	"latentbeam/internal/plan"
	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// arrange decides how the weights of the steps lie on the devices of a process, when so many elements of rows like
// these are to be computed, and tells the steps, so that they load no more; facts are what earlier runs learned of
// memory. over is what they take beyond the memory of its workers, beside the smallest of the rows: a row that is too
// large for it all fails by itself and decides nothing.
func arrange(cfg *config.Config, steps []stages.Step, rows []schemas.PromptRow, elements int,
	devices []layout.Device, facts []memory.Fact) (held []layout.Held, over int64, err error) {
	var kinds [][]layout.Stage // of each kind of rows, what needs most first
	for _, row := range rows {
		if costs, err := costsOf(steps, row); err == nil { // else rows of the kind fail by themselves
			remembered(costs, row, facts)
			kinds = append(kinds, costs)
		}
	}
	if len(kinds) == 0 {
		return nil, 0, nil // nothing is known of such rows: weights lie as the options say
	}
	slices.SortStableFunc(kinds, func(a, b []layout.Stage) int { return -cmp.Compare(needOf(a), needOf(b)) })
	for i := range kinds {
		if held, over = layout.Arrange(largest(kinds[i:]), devices, elements); over == 0 {
			break
		}
	}
	for i, s := range steps {
		if l := s.Capabilities().Loading; l != nil && l.Hold != nil {
			if err := l.Hold(held[i]); err != nil {
				return nil, 0, cfg.Errorf(fmt.Sprintf("stages.%d", i), "%s: %v", s.Name, err)
			}
		}
	}
	return held, over, nil
}

// needOf is what the hungriest stage needs for one element.
func needOf(costs []layout.Stage) (most int64) {
	for _, s := range costs {
		if n, err := s.Need(1); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// largest returns the stages as rows of all kinds together need them: what the first kind costs, and as much memory as
// any.
func largest(kinds [][]layout.Stage) []layout.Stage {
	out := slices.Clone(kinds[0])
	for i := range out {
		out[i].Need = func(n int) (most int64, err error) {
			for _, costs := range kinds {
				bytes, err := costs[i].Need(n)
				if err != nil {
					return 0, err
				}
				most = max(most, bytes)
			}
			return most, nil
		}
	}
	return out
}

// arrange does so for this process, and takes the weights off the memory that it has for batches.
func (j *Job) arrange(rows []schemas.PromptRow, elements int) (err error) {
	weighed(j.local, 0)
	of := known(j.local)
	if len(of) == 0 {
		return nil // all are on other hosts
	}
	j.held, j.over, err = arrange(j.Config, j.steps, rows, elements, of, j.facts)
	if err == nil && j.over == 0 { // else the system has to do without what they take
		weighed(j.local, sizeOf(j.held))
	}
	return err
}

// freed takes down that blocks of a step pass which were to stay, so that batches get their room.
func (j *Job) freed(step int, row schemas.PromptRow, stay int) {
	costs, err := costsOf(j.steps, row)
	if err != nil || j.over > 0 || step >= len(j.held) {
		return
	}
	j.held[step] = layout.Passing(j.held[step], costs[step], stay)
	weighed(j.local, sizeOf(j.held))
}

// prepare arranges the weights for the rows that the plan has found, which may be larger than the defaults, here and on
// other hosts. A job whose memory is bounded so that not even the smallest fit is refused.
func (j *Job) prepare(ctx context.Context, p Plan) error {
	if len(p.Buckets) == 0 {
		return nil
	}
	if err := j.arrange(p.firsts(), int(min(p.New, maxElements))); err != nil {
		return err
	}
	if of := known(j.local); j.over > 0 && len(of) > 0 && of[0].Mapped && j.Config.Given("resources.memory") {
		n := int64(len(of))
		return j.Config.Errorf("resources.memory", "the weights and the smallest rows need %s more than %d workers "+
			"may take, although blocks pass through memory where they can", plan.Bytes(j.over), n).
			WithFix("set resources.memory to %s or more", plan.Bytes(of[0].Memory+(j.over+n-1)/n))
	}
	if j.fleet == nil {
		return nil
	}
	rows, err := json.Marshal(expectedRows{p.firsts(), int(min(p.New, maxElements))})
	if err == nil {
		j.fleet.Expect(ctx, rows)
	}
	return err
}

// maxElements is so many that a decision does not depend on the number.
const maxElements = 1 << 20

// expectedRows is what other hosts are told of the rows of a job: one of each shape, and how many there are in all.
type expectedRows struct {
	Rows     []schemas.PromptRow `json:"rows"`
	Elements int                 `json:"elements"`
}

// firsts returns a row of each shape.
func (p Plan) firsts() (rows []schemas.PromptRow) {
	for _, b := range p.Buckets {
		row := b.first
		row.Prompt, row.Extra = "", "" // nothing depends on them
		rows = append(rows, row)
	}
	return rows
}

// known returns what is known of devices without measuring them.
func known(devices lend.Pool) []layout.Device {
	if known := devices.Capabilities().Layout; known != nil {
		return known()
	}
	out := layout.Ranks(devices.Speeds())
	for i := range out {
		out[i].Memory, out[i].Mapped = devices.Memory().Limit, true
	}
	return out
}
