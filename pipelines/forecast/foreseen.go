package forecast

import (
	"context"
	"slices"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/watch/board"
	"latentbeam/internal/watch/runpage"
)

// Foreseen is the prediction of a run, made before its start. If there is none, Why gives the reason.
type Foreseen struct {
	Prediction
	Why string
}

// Foresee predicts the run for its report. It returns no error, because a run does not need a prediction.
func (j *Predictor) Foresee(ctx context.Context, w Work) Foreseen {
	if w.New == 0 {
		return Foreseen{Why: "Nothing was to be computed."}
	}
	f, err := j.Predict(ctx, w, false)
	switch {
	case err != nil:
		return Foreseen{Why: "Not predicted: " + err.Error()}
	case f.Seconds <= 0:
		return Foreseen{Why: "The stages of this job do not say what they cost."}
	}
	return Foreseen{Prediction: f}
}

// Expectations compares the prediction with the measured times: of the whole run, and the device times of each stage and
// shape.
func (f *Foreseen) Expectations(pending int64, took time.Duration, tally *runpage.Tally) (all []runpage.Expectation, why string) {
	switch {
	case f.Why != "":
		return nil, f.Why
	case pending > 0:
		return nil, "Not all rows were computed, so the prediction for all says nothing."
	}
	all = []runpage.Expectation{{Name: "the run; publishing and tables are not predicted", Predicted: seconds(f.Seconds), Measured: took}}
	shapes, _, _ := tally.Cells()
	var stages, sizes sums
	for _, l := range f.leases {
		stages.add(l.Stage, seconds(l.Seconds), 0)
		sizes.add(engine.BucketName(l.Shape), seconds(l.Seconds), 0)
	}
	for _, c := range shapes {
		stages.add(c.Stage, 0, c.Busy)
		if stages.of(c.Stage).Predicted > 0 { // other stages have no predicted cost
			sizes.add(c.Of, 0, c.Busy)
		}
	}
	all = append(all, stages.predicted()...)
	if len(sizes.list) > 1 {
		all = append(all, sizes.predicted()...)
	}
	return all, ""
}

// Costs returns the predicted cost of a row of each shape in each stage.
func (f *Foreseen) Costs() (all []board.Foreseen) {
	for _, l := range f.leases {
		shape, rows := engine.BucketName(l.Shape), float64(l.Elements*l.Times)
		i := slices.IndexFunc(all, func(c board.Foreseen) bool { return c.Stage == l.Stage && c.Shape == shape })
		if i < 0 && rows > 0 { // the first lease of a stage has the most rows
			all = append(all, board.Foreseen{Stage: l.Stage, Shape: shape, Seconds: l.Seconds / rows})
		}
	}
	return all
}

// sums sums expectations by name, in the order of their first appearance.
type sums struct{ list []*runpage.Expectation }

// of returns the expectation with a name, and adds it if necessary.
func (s *sums) of(name string) *runpage.Expectation {
	for _, e := range s.list {
		if e.Name == name {
			return e
		}
	}
	s.list = append(s.list, &runpage.Expectation{Name: name})
	return s.list[len(s.list)-1]
}

// add adds times to an expectation.
func (s *sums) add(name string, predicted, measured time.Duration) {
	e := s.of(name)
	e.Predicted, e.Measured = e.Predicted+predicted, e.Measured+measured
}

// predicted returns the expectations that have a prediction, at most as many as people read.
func (s *sums) predicted() (out []runpage.Expectation) {
	const most = 16
	for _, e := range s.list {
		if e.Predicted > 0 && len(out) < most {
			out = append(out, *e)
		}
	}
	return out
}
