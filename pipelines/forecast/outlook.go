package forecast

import (
	"cmp"
	"fmt"
	"slices"

	"latentbeam/internal/engine/schedule"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// maxForeseen limits the devices of a run that is simulated, because every simulated lease tries all widths of a set.
const maxForeseen = 128

// foresight returns the data for the simulation of a run on these devices; nil: there are too many devices.
func (j *Predictor) foresight(devices []layout.DeviceModel, held []cost.Placement) *schedule.Foresight {
	pool := j.Engine.Schedule.Pool
	if len(devices) > maxForeseen || len(devices) != pool.Size() {
		return nil
	}
	f := schedule.Foresight{Steps: j.Engine.Schedule.Steps, Pool: pool, Devices: devices, Placements: held,
		MaxBatch: j.Engine.Schedule.MaxBatch, Facts: j.Host.Facts, Predictions: schedule.NewPredictions()}
	return &f
}

// foresee simulates the run of the rows of one shape. If others is true, it also lists slower alternatives in Rejected.
func (l *BucketPlan) foresee(f schedule.Foresight, query layout.Query, others bool) (err error) {
	f.Rows = []schedule.Expected{{Row: l.First, Rows: int(l.Keys)}}
	if l.Run, err = f.Outlook(); err != nil {
		return err
	}
	widths := l.Fit
	for _, lease := range l.Run.Leases {
		if lease.Stage == l.denoiser() {
			query.Width, query.AtOnce = lease.Devices, lease.Elements
			break
		}
	}
	if l.Outcome, err = layout.Search(query); err != nil {
		return err
	}
	split := l.Split()
	if !others || split == nil || split.Width > 0 || split.Grid.Shards() > 1 {
		return nil
	}
	type fixed struct {
		width   int
		seconds float64
	}
	var slower []fixed
	for _, c := range widths {
		f.Width = c.Width
		other, err := f.Outlook()
		if err != nil {
			return err
		}
		if !slices.Equal(other.Leases, l.Run.Leases) { // it differs from the choice
			slower = append(slower, fixed{c.Width, other.Seconds})
		}
	}
	slices.SortStableFunc(slower, func(a, b fixed) int { return cmp.Compare(a.seconds, b.seconds) })
	var lost []cost.Rejected
	for _, o := range slower {
		lost = append(lost, cost.Rejected{What: fmt.Sprintf("sequence_parallel: %d for every batch", o.width),
			Why: layout.Slower(o.seconds, l.Run.Seconds)})
	}
	l.Rejected = append(lost, l.Rejected...)
	return nil
}

// denoiser returns the name of the stage whose batches a set divides; "": none.
func (l *BucketPlan) denoiser() string {
	for _, s := range l.Stages {
		if s.Split != nil {
			return s.Name
		}
	}
	return ""
}

// Seconds returns the predicted time of all rows of the shape.
func (l BucketPlan) Seconds() float64 {
	if len(l.Run.Leases) > 0 {
		return l.Run.Seconds
	}
	return l.Best.Seconds
}
