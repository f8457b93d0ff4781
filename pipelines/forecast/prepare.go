package forecast

import (
	"context"
	"encoding/json"

	"latentbeam/internal/engine/host"
	"latentbeam/stages/cost"
)

// Prepare arranges the weights for the rows to compute, which may be larger than the defaults, in this process and on
// other hosts. It returns an error if resources.memory is too low even for the smallest rows.
func (j *Predictor) Prepare(ctx context.Context, w Work) error {
	if len(w.Buckets) == 0 {
		return nil
	}
	if err := j.Host.Arrange(w.firsts(), w.elements()); err != nil {
		return err
	}
	over := j.Host.Over()
	if of := host.Known(j.Local); over > 0 && len(of) > 0 && of[0].Mapped && j.Config.Given("resources.memory") {
		n := int64(len(of))
		return j.Config.Errorf("resources.memory", "the weights and the smallest rows need %s more than %d workers "+
			"may take, although blocks pass through memory where they can", cost.Bytes(over), n).
			WithFix("set resources.memory to %s or more", cost.Bytes(of[0].Memory+(over+n-1)/n))
	}
	if j.Fleet == nil {
		return nil
	}
	rows, err := json.Marshal(w.Expected())
	if err == nil {
		j.Fleet.Expect(ctx, rows)
	}
	return err
}
