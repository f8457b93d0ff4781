package forecast

import (
	"context"
	"time"

	"latentbeam/internal/engine/schedule"
	"latentbeam/stages/layout"
)

// Prediction is the predicted run of the new rows of a job. It assumes that the cost model is right and that the machines have no
// other work, and leaves out publishing and tables. `plan`, a dry run and the report of a run use it.
type Prediction struct {
	Devices []layout.DeviceModel
	Layouts []BucketPlan // one entry per shape
	Seconds float64      // time of all rows
	Silent  []string     // stages without a cost, which are not counted
	leases  []schedule.Lease
}

// Predict simulates the run of the new rows. If others is true, the layouts also list slower alternatives.
func (j *Predictor) Predict(ctx context.Context, w Work, others bool) (Prediction, error) {
	out := Prediction{Silent: j.silent()}
	w = readable(ctx, w)
	var err error
	if out.Devices, err = j.Devices(w); err != nil {
		return out, err
	}
	if out.Layouts, err = j.layouts(ctx, w, out.Devices, others); err != nil {
		return out, err
	}
	out.Seconds, out.leases, err = j.together(out.Layouts, out.Devices)
	return out, err
}

// together predicts the run of the rows of all shapes. If the run cannot be simulated, together adds the times of the
// shapes.
func (j *Predictor) together(layouts []BucketPlan, devices []layout.DeviceModel) (seconds float64, leases []schedule.Lease, err error) {
	var rows []schedule.Expected
	var last BucketPlan
	for _, l := range layouts {
		if l.Fails == nil {
			seconds += l.Seconds()
			rows, last = append(rows, schedule.Expected{Row: l.First, Rows: int(l.Keys)}), l
		}
	}
	if len(rows) == 1 && len(last.Run.Leases) > 0 { // simulated already
		return last.Run.Seconds, last.Run.Leases, nil
	}
	f := j.foresight(devices, j.Host.Placements())
	if f == nil || len(rows) == 0 {
		return seconds, nil, nil
	}
	f.Rows = rows
	all, err := f.Outlook()
	return all.Seconds, all.Leases, err
}

// silent returns the names of the stages without a cost.
func (j *Predictor) silent() (names []string) {
	for _, s := range j.Engine.Schedule.Steps {
		if s.Capabilities().Cost == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// Weights returns the bytes of weights of each stage by name.
func (j *Predictor) Weights(w Work) map[string]int64 {
	out := map[string]int64{}
	if len(w.Buckets) == 0 {
		return out
	}
	costs, err := j.costs(w.Buckets[0].First)
	for _, c := range costs {
		if err == nil {
			out[c.Name] = c.Weights
		}
	}
	return out
}

// seconds converts seconds to a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
