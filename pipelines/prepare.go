package pipelines

import (
	"context"
	"encoding/json"

	"latentbeam/internal/engine/host"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
)

// prepare arranges the weights for the rows that the plan has found, which may be larger than the defaults, here and on
// other hosts. A job whose memory is bounded so that not even the smallest fit is refused.
func (j *Job) prepare(ctx context.Context, p Plan) error {
	if len(p.Buckets) == 0 {
		return nil
	}
	if err := j.host.Arrange(p.firsts(), int(min(p.New, maxElements))); err != nil {
		return err
	}
	over := j.host.Over()
	if of := host.Known(j.local); over > 0 && len(of) > 0 && of[0].Mapped && j.Config.Given("resources.memory") {
		n := int64(len(of))
		return j.Config.Errorf("resources.memory", "the weights and the smallest rows need %s more than %d workers "+
			"may take, although blocks pass through memory where they can", cost.Bytes(over), n).
			WithFix("set resources.memory to %s or more", cost.Bytes(of[0].Memory+(over+n-1)/n))
	}
	if j.fleet == nil {
		return nil
	}
	rows, err := json.Marshal(host.ExpectedRows{Rows: p.firsts(), Elements: int(min(p.New, maxElements))})
	if err == nil {
		j.fleet.Expect(ctx, rows)
	}
	return err
}

// maxElements is so many that a decision does not depend on the number.
const maxElements = 1 << 20

// firsts returns a row of each shape.
func (p Plan) firsts() (rows []schemas.PromptRow) {
	for _, b := range p.Buckets {
		row := b.first
		row.Prompt, row.Extra = "", "" // nothing depends on them
		rows = append(rows, row)
	}
	return rows
}
