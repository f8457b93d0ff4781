package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine/schedule"
	"latentbeam/internal/watch/board"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// This file reports a job's progress to its board.

// newBoard returns the board of a process with these steps and devices.
func newBoard(steps []stages.Step, pool devices.Pool) *board.Board {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	if pool == nil {
		return board.New(names, nil)
	}
	devices := make([]string, len(pool.Speeds()))
	for i := range devices {
		devices[i] = deviceName(pool, i)
	}
	return board.New(names, devices)
}

// deviceName names a device of a pool for people, such as "cpu:0". The name of a device on another host starts with the host.
func deviceName(pool devices.Pool, device int) string {
	kind, _, _ := strings.Cut(pool.Class(), "/")
	name := fmt.Sprintf("%s:%d", kind, device)
	can := pool.Capabilities()
	if can.Layout == nil || can.Hardware == nil {
		return name
	}
	if of := can.Layout(); device < len(of) && of[device].Node != 0 {
		return can.Hardware.Label(device) + "/" + name
	}
	return name
}

// ShapeName names the shape of a row for people: "64x64x9, 30 steps".
func ShapeName(row *schemas.PromptRow) string {
	return BucketName(schemas.BucketOf(*row))
}

// BucketName names a shape as ShapeName does.
func BucketName(b schemas.Bucket) string {
	if b.NumInferenceSteps == 0 {
		return b.String()
	}
	return fmt.Sprintf("%s, %d steps", b, b.NumInferenceSteps)
}

func shapeOf(live []*stages.Element) string { return ShapeName(&live[0].Row) }

// idsOf names the rows of a batch for people.
func idsOf(live []*stages.Element) []string {
	ids := make([]string, len(live))
	for i, e := range live {
		ids[i] = idOf(e)
	}
	return ids
}

func idOf(e *stages.Element) string {
	if e.Row.ID != "" {
		return e.Row.ID
	}
	return e.Key.String()[:12]
}

// follow records on the board that the batch of a grant is running on its devices. It returns a context under which the stage
// reports its steps.
func (e *Engine) follow(ctx context.Context, stage string, set *stages.Set, g *schedule.Grant) (context.Context, *board.Batch) {
	names := make([]string, len(g.Devices))
	for i, d := range g.Devices {
		names[i] = deviceName(e.Schedule.Pool, d)
	}
	work := e.Board.Work(stage, shapeOf(g.Live), len(g.Live), idsOf(g.Live), names)
	ctx = stages.WithNote(stages.WithProgress(ctx, work.Step), work.SetWaiting)
	if e.Board.WantsDetails() {
		ctx = kernels.WithExchanges(ctx, func(be kernels.Backend, tag kernels.Tag, began time.Time, bytes int64) {
			s := board.Span{Kind: board.Exchange, Name: tag.Op, Stage: stage, Begin: began, End: time.Now(), Bytes: bytes}
			if i := slices.Index(set.Devices, be); i >= 0 && i < len(names) {
				s.Devices = names[i : i+1]
			}
			e.Board.Emit(s)
		})
	}
	return ctx, work
}

// published records on the board that rows are in the output.
func (e *Engine) published(group []*stages.Element, began time.Time) {
	now := time.Now()
	e.Board.Emit(board.Span{Kind: board.Publish, Stage: "publish", Rows: idsOf(group), Count: len(group), Begin: began, End: now})
	for _, el := range group {
		failure, shape := FailureOf(el), ShapeName(&el.Row)
		e.Board.Settled(shape, failure, ReasonOf(el))
		s := board.Span{Kind: board.Row, Stage: "publish", Shape: shape, Rows: []string{idOf(el)}, Count: 1,
			Begin: now, End: now, Failure: failure}
		if el.Failed != nil {
			s.Stage, s.Error = el.Failed.Stage, el.Failed.Message
		}
		e.Board.Emit(s)
	}
	e.Board.Published(began, len(group))
}

// FailureOf returns the class and stage of a failure; "" for a row that is done or dropped.
func FailureOf(e *stages.Element) string {
	if e.Failed == nil || e.Failed.IsDropped() {
		return ""
	}
	return e.Failed.Class.String() + "/" + e.Failed.Stage
}

// ReasonOf says which row failed and why; "" for a row that is done.
func ReasonOf(e *stages.Element) string {
	if e.Failed == nil {
		return ""
	}
	row := cmp.Or(e.Given.Source, idOf(e))
	return fmt.Sprintf("%s: %s: %s", row, e.Failed.Stage, strings.TrimPrefix(e.Failed.Message, row+": "))
}
