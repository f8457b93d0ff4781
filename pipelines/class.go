package pipelines

import (
	"context"
	"encoding/json"
	"fmt"

	"latentbeam/internal/results/report"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/schemas/fault"
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

// otherClass says that the rows of the output are of another class than the job, "" where they are not.
func (j *Job) otherClass(p Plan) string {
	own := j.engine.Rules.Class
	if p.New == 0 || j.before == "" || j.before == own || j.Opts.NewClass || j.engine.Ledger == nil || j.engine.Ledger.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("class changed: the rows of this output are of class %s, this run computes in %s, and %d rows would "+
		"be new", j.before, own, p.New)
}

// sameClass refuses a run that would compute rows of the output anew because of its class alone.
func (j *Job) sameClass(p Plan) error {
	why := j.otherClass(p)
	if why == "" {
		return nil
	}
	return fault.Usage(fmt.Errorf("%s; run on a host of class %s (resources.class), write into another output, or give --new-class", why,
		j.before))
}
