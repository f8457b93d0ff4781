package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/ledger"
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
	engine *Engine
}

// Setup finds the engine of this process.
func (f *KeyFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// ProcessElement passes e on if it is still to be computed. A bad row ends here: it is counted, and the
// failures table is written from the source itself.
func (f *KeyFn) ProcessElement(_ context.Context, e *stages.Element, emit func(*stages.Element)) error {
	f.engine.Rules.Apply(e)
	if !f.engine.Rules.Mine(e) {
		return nil
	}
	p := f.engine.Progress
	p.Seen.Add(1)
	if e.Failed != nil {
		return f.engine.Fail(p.Settle(0, 1))
	}
	if !f.engine.pending.claim(e.Key) {
		p.Shared.Add(1)
		return nil
	}
	// Only after the claim: an equal row in flight gives its claim back when the ledger has it.
	_, status, err := f.engine.Ledger.Lookup(ledger.Key(e.Key))
	if err == nil && status == ledger.Absent {
		emit(e)
		return nil
	}
	f.engine.pending.release(e.Key)
	p.Skipped.Add(1)
	return f.engine.Fail(err)
}
