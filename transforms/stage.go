package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/engine"
	"latentbeam/stages"
)

// Stage runs step number index of the job on every batch.
func Stage(s beam.Scope, spec []byte, name string, index int, batches beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope(name), &StageFn{Spec: spec, Index: index}, batches)
}

// StageFn submits batches to a station of the engine.
type StageFn struct {
	Spec    []byte
	Index   int
	engine  *engine.Engine
	station *engine.Station
}

// Setup finds the engine of this process.
func (f *StageFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// StartBundle opens a station.
func (f *StageFn) StartBundle(ctx context.Context, _ func(*stages.Batch)) {
	f.station = f.engine.Station(ctx, f.Index)
}

// ProcessElement starts the batch and emits finished batches.
func (f *StageFn) ProcessElement(_ context.Context, b *stages.Batch, emit func(*stages.Batch)) error {
	return reported(f.engine, f.station.Submit(b, emit))
}

// FinishBundle waits for all batches in flight and emits them.
func (f *StageFn) FinishBundle(_ context.Context, emit func(*stages.Batch)) error {
	return reported(f.engine, f.station.Close(emit))
}
