package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/engine"
	"latentbeam/stages"
)

// Read returns the rows of the job's source as a PCollection of *stages.Element, without keys. An unusable
// row is emitted as a failed element.
func Read(s beam.Scope, spec []byte) beam.PCollection {
	s = s.Scope("read")
	return beam.ParDo(s, &ReadFn{Spec: spec}, beam.Impulse(s))
}

// ReadFn streams the source in one bundle, so that no table is ever held in memory.
type ReadFn struct {
	Spec   []byte
	engine *engine.Engine
}

// Setup finds the engine of this process.
func (f *ReadFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// ProcessElement emits every row until the table ends or the engine is asked to stop.
func (f *ReadFn) ProcessElement(ctx context.Context, _ []byte, emit func(*stages.Element)) error {
	return f.engine.Read(ctx, emit)
}
