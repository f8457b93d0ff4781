package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"

	"latentbeam/internal/engine/memory"
	"latentbeam/internal/results/report"
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
