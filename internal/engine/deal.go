package engine

import (
	"context"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// maxDealt bounds the rows that are held to be dealt. They are without tensors.
const maxDealt = 16384

// A part of the rows has about so many blocks: one more or less makes little difference. A block is bounded, for a process
// holds one.
const (
	blocksOfPart = 16
	maxBlock     = 2048
)

// Dealing is how the rows of a job are handed to other processes.
type Dealing struct {
	Rows  int64                        // that are dealt, about
	Parts int                          // that the processes work off, one after the other
	Twice func(schemas.Key) bool       // an equal row may be in the input; only such keys are remembered
	Away  func(row *schemas.PromptRow) // makes the paths in a row independent of the current directory
	Put   func(*stages.Batch) error    // takes a block: rows of one shape
}

// Deal reads the input and hands out what is still to be computed, without tensors, and equal rows once.
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

// dealer gathers rows into blocks of one shape, of which batches can be made behind a shuffle.
type dealer struct {
	engine *Engine
	to     Dealing
	open   map[schemas.Bucket]*block
	order  []schemas.Bucket // of the open blocks, oldest first
	held   int              // rows
}

type block struct {
	stages.Batch
	full int // how many rows it takes
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

// full is how many rows a block has: those of whole batches, or the share of a part if a batch is larger than that. Otherwise a
// few parts would get all rows, and hosts would wait. A row without a batch size counts as one batch; its stage reports the
// error.
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

// flush hands out what is left.
func (d *dealer) flush() error {
	for len(d.order) > 0 {
		if err := d.deal(d.order[0]); err != nil {
			return err
		}
	}
	return nil
}
