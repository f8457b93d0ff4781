package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"

	"latentbeam/internal/engine/memory"
	"latentbeam/internal/plan/layout"
	"latentbeam/internal/report"
	"latentbeam/schemas"
)

// recall reads from the output what an earlier run in the same numeric class learned of memory. An output that
// is not there or cannot be read has nothing to say.
func (o outputs) recall(ctx context.Context, output, part, class string) []memory.Fact {
	text, err := o.readFile(ctx, output, (&report.Job{Part: part}).SummaryName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var s struct {
		Class string `json:"class"`
		Run   struct {
			Memory []memory.Fact `json:"memory"`
		} `json:"run"`
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || s.Class != class {
		slog.Debug("nothing is recalled of memory", "class", s.Class, "error", err)
		return nil
	}
	return s.Run.Memory
}

// remembered makes what stages say they need for rows like row what it turned out to be: the most of what is known of
// rows of that shape.
func remembered(costs []layout.Stage, row schemas.PromptRow, facts []memory.Fact) {
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
