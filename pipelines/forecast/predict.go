package forecast

import (
	"context"
	"time"

	"latentbeam/internal/engine/schedule"
	"latentbeam/stages/layout"
)

// Prediction is what the run of the new rows of a job takes, as far as the cost model is right: on machines that have
// nothing else to do, without publishing and tables. `plan`, a dry run and the report of a run make it here.
type Prediction struct {
	Devices []layout.DeviceModel
	Layouts []BucketPlan // by shape
	Seconds float64      // of all rows together
	Silent  []string     // the stages without a cost; they are not counted
	leases  []schedule.Lease
}

// Predict plays the run of the new rows through. With others, layouts list what was not chosen, which takes longer.
func (j *Predictor) Predict(ctx context.Context, w Work, others bool) (Prediction, error) {
	out := Prediction{Silent: j.silent()}
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

// together predicts the run of all rows, whatever their shapes. Where it cannot be played through its shapes follow one
// another.
func (j *Predictor) together(layouts []BucketPlan, devices []layout.DeviceModel) (seconds float64, leases []schedule.Lease, err error) {
	var rows []schedule.Expected
	for _, l := range layouts {
		if l.Fails == nil {
			seconds += l.Seconds()
			rows = append(rows, schedule.Expected{Row: l.First, Rows: int(l.Keys)})
		}
	}
	f := j.foresight(devices, j.Host.Held())
	if f == nil || len(rows) == 0 {
		return seconds, nil, nil
	}
	f.Rows = rows
	all, err := f.Outlook()
	return all.Seconds, all.Leases, err
}

// silent names the stages that do not say what they cost.
func (j *Predictor) silent() (names []string) {
	for _, s := range j.Engine.Schedule.Steps {
		if s.Capabilities().Cost == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// Weights are the bytes of the weights of each stage, by its name.
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

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
