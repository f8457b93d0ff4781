package host

import (
	"latentbeam/internal/engine/memory"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
)

// useMeasured replaces the stages' memory estimates in costs by the largest need that earlier runs measured for the shape
// of row.
func useMeasured(costs []cost.Estimate, row schemas.PromptRow, facts []memory.Fact) {
	for i := range costs {
		var mine []memory.Fact // old releases may have stored several
		for _, f := range facts {
			if f.Of(costs[i].Name, row) {
				mine = append(mine, f)
			}
		}
		need := costs[i].Need
		if need == nil || len(mine) == 0 {
			continue
		}
		costs[i].Need = func(n int) (most int64, err error) {
			bytes, err := need(n)
			for _, f := range mine {
				most = max(most, f.Correct(n, bytes))
			}
			return most, err
		}
	}
}
