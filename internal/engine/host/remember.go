package host

import (
	"latentbeam/internal/engine/memory"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
)

// remembered makes what stages say they need for rows like row what it turned out to be: the most of what is known of
// rows of that shape.
func remembered(costs []cost.Estimate, row schemas.PromptRow, facts []memory.Fact) {
	for i := range costs {
		var mine []memory.Fact // several in the summary of an earlier version
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
