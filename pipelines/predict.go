package pipelines

import (
	"context"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/engine/schedule"
	"latentbeam/internal/plan/layout"
	"latentbeam/internal/runpage"
)

// Prediction is what the run of the new rows of a plan takes, as far as the cost model is right: on machines that have
// nothing else to do, without publishing and tables. `plan`, a dry run and the report of a run make it here.
type Prediction struct {
	Devices []layout.DeviceModel
	Layouts []Layout // by shape
	Seconds float64  // of all rows together
	Silent  []string // the stages without a cost; they are not counted
	leases  []schedule.Lease
}

// Predict plays the run of the new rows through. With others, layouts list what was not chosen, which takes longer.
func (j *Job) Predict(ctx context.Context, p Plan, others bool) (Prediction, error) {
	out := Prediction{Silent: j.silent()}
	var err error
	if out.Devices, err = j.Devices(p); err != nil {
		return out, err
	}
	if out.Layouts, err = j.layouts(ctx, p, out.Devices, others); err != nil {
		return out, err
	}
	out.Seconds, out.leases, err = j.together(out.Layouts, out.Devices)
	return out, err
}

// together predicts the run of all rows, whatever their shapes. Where it cannot be played through its shapes follow one
// another.
func (j *Job) together(layouts []Layout, devices []layout.DeviceModel) (seconds float64, leases []schedule.Lease, err error) {
	var rows []schedule.Expected
	for _, l := range layouts {
		if l.Fails == nil {
			seconds += l.Seconds()
			rows = append(rows, schedule.Expected{Row: l.first, Rows: int(l.Keys)})
		}
	}
	f := j.foresight(devices, j.host.Held())
	if f == nil || len(rows) == 0 {
		return seconds, nil, nil
	}
	f.Rows = rows
	all, err := f.Outlook()
	return all.Seconds, all.Leases, err
}

// silent names the stages that do not say what they cost.
func (j *Job) silent() (names []string) {
	for _, s := range j.engine.Steps {
		if s.Capabilities().Cost == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// Program is the name of the first stage that is a program, "" where none is.
func (j *Job) Program() string {
	for _, s := range j.engine.Steps {
		if s.Spec.Program != nil {
			return s.Name
		}
	}
	return ""
}

// foreseen is what was predicted of a run before it began; why says why nothing was.
type foreseen struct {
	Prediction
	why string
}

// foresee predicts the run for its report. A run without a prediction is a run all the same.
func (j *Job) foresee(ctx context.Context, p Plan) foreseen {
	if p.New == 0 {
		return foreseen{why: "Nothing was to be computed."}
	}
	f, err := j.Predict(ctx, p, false)
	switch {
	case err != nil:
		return foreseen{why: "Not predicted: " + err.Error()}
	case f.Seconds <= 0:
		return foreseen{why: "The stages of this job do not say what they cost."}
	}
	return foreseen{Prediction: f}
}

// expectations are the prediction beside what the run took: all of it, and the device time of each stage and shape.
func (j *Job) expectations(r *Result) (all []runpage.Expectation, why string) {
	switch f := &j.foreseen; {
	case f.why != "":
		return nil, f.why
	case r.Totals.Pending > 0:
		return nil, "Not all rows were computed, so the prediction for all says nothing."
	}
	all = []runpage.Expectation{{Name: "the run; publishing and tables are not predicted", Predicted: seconds(j.foreseen.Seconds), Measured: r.Elapsed}}
	shapes, _, _ := j.tally.Cells()
	var stages, sizes sums
	for _, l := range j.foreseen.leases {
		stages.add(l.Stage, seconds(l.Seconds), 0)
		sizes.add(engine.BucketName(l.Shape), seconds(l.Seconds), 0)
	}
	for _, c := range shapes {
		stages.add(c.Stage, 0, c.Busy)
		if stages.of(c.Stage).Predicted > 0 { // the others say nothing of what they cost
			sizes.add(c.Of, 0, c.Busy)
		}
	}
	all = append(all, stages.predicted()...)
	if len(sizes.list) > 1 {
		all = append(all, sizes.predicted()...)
	}
	return all, ""
}

// sums are expectations by name, in the order of their first appearance.
type sums struct{ list []*runpage.Expectation }

func (s *sums) of(name string) *runpage.Expectation {
	for _, e := range s.list {
		if e.Name == name {
			return e
		}
	}
	s.list = append(s.list, &runpage.Expectation{Name: name})
	return s.list[len(s.list)-1]
}

func (s *sums) add(name string, predicted, measured time.Duration) {
	e := s.of(name)
	e.Predicted, e.Measured = e.Predicted+predicted, e.Measured+measured
}

// predicted are those that something was predicted for, up to a number that people read.
func (s *sums) predicted() (out []runpage.Expectation) {
	const most = 16
	for _, e := range s.list {
		if e.Predicted > 0 && len(out) < most {
			out = append(out, *e)
		}
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// weightsOf are the bytes of the weights of each stage, by its name.
func (j *Job) weightsOf(p Plan) map[string]int64 {
	out := map[string]int64{}
	if len(p.Buckets) == 0 {
		return out
	}
	costs, err := j.costs(p.Buckets[0].first)
	for _, c := range costs {
		if err == nil {
			out[c.Name] = c.Weights
		}
	}
	return out
}
