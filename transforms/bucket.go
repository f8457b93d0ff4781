package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/engine"
	"latentbeam/stages"
)

// Bucket groups elements of one shape into batches. Grouping happens inside the bundle: nothing is shuffled.
func Bucket(s beam.Scope, spec []byte, rows beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("bucket"), &BucketFn{Spec: spec}, rows)
}

// BucketFn adds elements to the buckets of the engine.
type BucketFn struct {
	Spec    []byte
	engine  *engine.Engine
	buckets *engine.Buckets
}

// Setup finds the engine of this process.
func (f *BucketFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// StartBundle creates empty buckets.
func (f *BucketFn) StartBundle(ctx context.Context, _ func(*stages.Batch)) error {
	if f.engine.Spread == nil {
		f.buckets = f.engine.Buckets()
		return nil
	}
	var err error
	f.buckets, err = f.engine.BucketsOf(ctx)
	return reported(f.engine, err)
}

// ProcessElement puts e into its bucket and emits the batch when it is full.
func (f *BucketFn) ProcessElement(_ context.Context, e *stages.Element, emit func(*stages.Batch)) error {
	f.buckets.Add(e, emit)
	return reported(f.engine, f.buckets.Err())
}

// FinishBundle emits the remaining batches.
func (f *BucketFn) FinishBundle(_ context.Context, emit func(*stages.Batch)) error {
	f.buckets.Close(emit)
	return reported(f.engine, f.buckets.Err())
}
