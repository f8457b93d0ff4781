package pipelines

import (
	"context"
	"encoding/json"

	"latentbeam/internal/results/report"
	"latentbeam/internal/watch/runfiles"
)

// class returns the numeric class in which the last run on an output computed; "" where nothing says it.
func (o outputs) class(ctx context.Context, output, part string) string {
	s, err := o.read(ctx, output)
	if err != nil {
		return ""
	}
	defer s.Close()
	last := runfiles.JobInfo{}
	jobs, err := runfiles.List(ctx, s)
	if err == nil {
		for _, info := range jobs {
			if info.Class != "" && !info.Started.Before(last.Started) {
				last = info
			}
		}
	}
	if last.Class != "" {
		return last.Class
	}
	text, err := o.readFile(ctx, output, (&report.Job{Part: part}).SummaryName())
	var summary struct{ Class string }
	if err != nil || json.Unmarshal(text, &summary) != nil {
		return ""
	}
	return summary.Class
}
