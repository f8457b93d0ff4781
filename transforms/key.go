package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/engine"
	"latentbeam/stages"
)

// Key fills in defaults, checks and keys the elements, and lets through only what has to be computed:
// rows of other shards, rows the ledger has and rows equal to one in flight go no further.
func Key(s beam.Scope, spec []byte, rows beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("key"), &KeyFn{Spec: spec}, rows)
}

// KeyFn applies the job's Rules and looks into the ledger.
type KeyFn struct {
	Spec   []byte
	engine *engine.Engine
}

// Setup finds the engine of this process.
func (f *KeyFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// ProcessElement passes e on if it is still to be computed.
func (f *KeyFn) ProcessElement(_ context.Context, e *stages.Element, emit func(*stages.Element)) error {
	admitted, err := f.engine.Admit(e)
	if admitted {
		emit(e)
	}
	return err
}
