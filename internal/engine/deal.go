package engine

import (
	"context"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// maxDealt bounds the rows that wait for their block to fill. They carry no tensors.
const maxDealt = 16384

const (
	blocksOfPart = 16   // blocks in a part of the rows, about; more blocks spread rows more evenly
	maxBlock     = 2048 // rows in a block; a process holds one block in memory
)

// Dealing says how Deal hands the rows of a job to other processes.
type Dealing struct {
	Rows  int64                        // approximate number of rows to deal
	Parts int                          // bundles that the rows are split into
	Twice func(schemas.Key) bool       // reports whether another row may have this key; only such keys are remembered
	Away  func(row *schemas.PromptRow) // makes the paths in a row independent of the current directory
	Put   func(*stages.Batch) error    // receives a block: rows of one shape
}

// Deal reads the input and hands out the rows that still have to be computed, without tensors. It hands out equal rows once.
func (e *Engine) Deal(ctx context.Context, to Dealing) error {
	seen := map[schemas.Key]bool{}
	claim := func(k schemas.Key) bool {
		if !to.Twice(k) {
			return true
		}
		if seen[k] {
			return false
		}
		seen[k] = true
		return true
	}
	d := dealer{engine: e, to: to, open: map[schemas.Bucket]*block{}}
	for el, err := range e.Source.Rows(ctx, false) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return e.Fail(err)
		}
		if e.Schedule.Stopping() {
			return nil
		}
		admitted, err := e.admit(el, claim, func(schemas.Key) {})
		if err == nil && admitted {
			el.Text, el.Latents, el.RawLatents = nil, nil, nil
			to.Away(&el.Row)
			err = d.add(el)
		}
		if err != nil {
			return err
		}
	}
	return d.flush()
}

// dealer gathers rows into blocks of one shape, so that batches can be formed after a shuffle.
type dealer struct {
	engine *Engine
	to     Dealing
	open   map[schemas.Bucket]*block
	order  []schemas.Bucket // of the open blocks, oldest first
	held   int              // rows in open blocks
}

type block struct {
	stages.Batch
	full int // rows at which the block is handed out
}

func (d *dealer) add(e *stages.Element) error {
	shape := schemas.BucketOf(e.Row)
	b := d.open[shape]
	if b == nil {
		b = &block{stages.Batch{Bucket: shape}, d.full(&e.Row)}
		d.open[shape], d.order = b, append(d.order, shape)
	}
	b.Elements = append(b.Elements, e)
	d.held++
	switch {
	case len(b.Elements) >= b.full:
		return d.deal(shape)
	case d.held >= maxDealt:
		return d.deal(d.order[0])
	}
	return nil
}

// full returns the number of rows in a block: a multiple of the batch size, or a part's share of the rows if a batch is larger than
// the share. Otherwise a few parts would get all rows, and hosts would wait. If the batch size of row is unknown, full uses 1, and
// the stage reports the error.
func (d *dealer) full(row *schemas.PromptRow) int {
	batch, err := d.engine.Schedule.BatchSize(row)
	if err != nil {
		batch = 1
	}
	parts := int64(max(1, d.to.Parts))
	if share := (d.to.Rows + parts - 1) / parts; int64(batch) > share {
		return int(max(1, share))
	}
	least := int(min(max(1, d.to.Rows/(parts*blocksOfPart)), maxBlock))
	return (least + batch - 1) / batch * batch
}

// deal hands out a block.
func (d *dealer) deal(shape schemas.Bucket) error {
	b := d.open[shape]
	delete(d.open, shape)
	i := slices.Index(d.order, shape)
	d.order = slices.Delete(d.order, i, i+1)
	d.held -= len(b.Elements)
	return d.to.Put(&b.Batch)
}

// flush hands out all open blocks.
func (d *dealer) flush() error {
	for len(d.order) > 0 {
		if err := d.deal(d.order[0]); err != nil {
			return err
		}
	}
	return nil
}
