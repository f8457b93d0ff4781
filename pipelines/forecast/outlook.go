package forecast

import (
	"cmp"
	"fmt"
	"slices"

	"latentbeam/internal/engine/schedule"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// maxForeseen bounds the devices of a run that is played through: every lease looks at all widths of a set.
const maxForeseen = 128

// foresight is what is known of a run on these devices, nil where they are too many to play it through.
func (j *Predictor) foresight(devices []layout.DeviceModel, held []cost.Held) *schedule.Foresight {
	pool := j.Engine.Schedule.Pool
	if len(devices) > maxForeseen || len(devices) != pool.Size() {
		return nil
	}
	f := schedule.Foresight{Steps: j.Engine.Schedule.Steps, Pool: pool, Devices: devices, Held: held,
		MaxBatch: j.Engine.Schedule.MaxBatch, Facts: j.Host.Facts, Predictions: schedule.NewPredictions()}
	return &f
}

// foresee plays the run of the rows of one shape through; others lists what it is predicted to be faster than, too.
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
		if !slices.Equal(other.Leases, l.Run.Leases) { // else it is what was chosen
			slower = append(slower, fixed{c.Width, other.Seconds})
		}
	}
	slices.SortStableFunc(slower, func(a, b fixed) int { return cmp.Compare(a.seconds, b.seconds) })
	var lost []cost.Lost
	for _, o := range slower {
		lost = append(lost, cost.Lost{What: fmt.Sprintf("sequence_parallel: %d for every batch", o.width),
			Why: layout.Slower(o.seconds, l.Run.Seconds)})
	}
	l.Lost = append(lost, l.Lost...)
	return nil
}

// denoiser names the stage that a set shares, "" where there is none.
func (l *BucketPlan) denoiser() string {
	for _, s := range l.Stages {
		if s.Split != nil {
			return s.Name
		}
	}
	return ""
}

// Seconds is the predicted time of all rows of the shape.
func (l BucketPlan) Seconds() float64 {
	if len(l.Run.Leases) > 0 {
		return l.Run.Seconds
	}
	return l.Best.Seconds
}
