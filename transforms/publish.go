package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/engine"
	"latentbeam/stages"
)

// Publish writes the results into the output. It is the last transform; tables are written later, from the ledger.
func Publish(s beam.Scope, spec []byte, batches beam.PCollection) {
	beam.ParDo0(s.Scope("publish"), &PublishFn{Spec: spec}, batches)
}

// PublishFn passes elements to a publisher, which writes concurrently with the bundle.
type PublishFn struct {
	Spec      []byte
	engine    *engine.Engine
	publisher *engine.Publisher
}

// Setup finds the engine of this process.
func (f *PublishFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// StartBundle starts the publisher.
func (f *PublishFn) StartBundle(ctx context.Context) { f.publisher = f.engine.Publisher(ctx) }

// ProcessElement queues the elements of the batch.
func (f *PublishFn) ProcessElement(_ context.Context, b *stages.Batch) error {
	return reported(f.engine, f.publisher.Add(b))
}

// FinishBundle waits until everything queued is published.
func (f *PublishFn) FinishBundle(context.Context) error {
	err := reported(f.engine, f.publisher.Close())
	if s := f.engine.Spread; s != nil && err == nil {
		s.FinishBundle()
	}
	return err
}
