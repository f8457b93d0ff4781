package transforms

import (
	"context"
	"encoding/json"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/engine"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/stages"
)

// Rows returns the keyed rows of a job that runs in several processes. The submitter has written them into the output as
// blocks. Only the locations of blocks cross the shuffle, so no engine ever holds a whole table.
func Rows(s beam.Scope, spec []byte) beam.PCollection {
	s = s.Scope("rows")
	blocks := beam.ParDo(s.Scope("blocks"), &BlocksFn{Spec: spec}, beam.Impulse(s))
	return beam.ParDo(s.Scope("read"), &RowsFn{Spec: spec}, beam.Reshuffle(s, blocks))
}

// BlocksFn lists the locations of a job's blocks.
type BlocksFn struct {
	Spec   []byte
	engine *engine.Engine
}

// Setup finds the engine of this process.
func (f *BlocksFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// ProcessElement emits every block.
func (f *BlocksFn) ProcessElement(ctx context.Context, _ []byte, emit func(runfiles.Block)) error {
	blocks, err := f.engine.Spread.Blocks(ctx)
	if err != nil {
		return reported(f.engine, err)
	}
	for _, b := range blocks {
		emit(b)
	}
	return nil
}

// EncodeBlock codes the location of a block for another process.
func EncodeBlock(b runfiles.Block) ([]byte, error) { return json.Marshal(b) }

// DecodeBlock is the inverse of EncodeBlock.
func DecodeBlock(data []byte) (b runfiles.Block, err error) { return b, json.Unmarshal(data, &b) }

// RowsFn reads blocks.
type RowsFn struct {
	Spec   []byte
	engine *engine.Engine
}

// Setup finds the engine of this process.
func (f *RowsFn) Setup(context.Context) (err error) {
	f.engine, err = engineOf(f.Spec)
	return err
}

// ProcessElement emits the rows of a block that still have to be computed, unless the engine was asked to stop.
func (f *RowsFn) ProcessElement(ctx context.Context, b runfiles.Block, emit func(*stages.Element)) error {
	if f.engine.Schedule.Stopping() {
		return nil
	}
	rows, err := f.engine.Spread.Rows(ctx, b)
	if err != nil {
		return reported(f.engine, err)
	}
	for _, e := range rows.Elements {
		wanted, err := f.engine.Rejoin(e)
		if err != nil {
			return reported(f.engine, err)
		}
		if wanted {
			emit(e)
		}
	}
	return nil
}
