package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/engine"
	"latentbeam/stages"
)

// Key fills in defaults, checks the elements and computes their keys. It emits only elements that still have to be
// computed: it drops rows of other shards, rows that the ledger has, and rows equal to one in flight.
func Key(s beam.Scope, spec []byte, rows beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("key"), &KeyFn{Spec: spec}, rows)
}

// KeyFn applies the job's Rules and looks rows up in the ledger.
type KeyFn struct {
	Spec   []byte
	engine *engine.Engine
}

// Setup finds the engine of this process.
func (f *KeyFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// ProcessElement emits e if it still has to be computed.
func (f *KeyFn) ProcessElement(_ context.Context, e *stages.Element, emit func(*stages.Element)) error {
	admitted, err := f.engine.Admit(e)
	if admitted {
		emit(e)
	}
	return err
}
