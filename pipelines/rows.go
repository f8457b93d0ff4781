package pipelines

import (
	"context"
	"iter"

	"latentbeam/internal/engine"
	"latentbeam/internal/engine/keys"
	"latentbeam/stages"
)

// rows are those of an input, filled, checked and keyed by the rules of a job.
type rows struct {
	source engine.RowSource
	rules  *keys.Rules
}

// mine yields the rows of this shard, without tensors.
func (r rows) mine(ctx context.Context) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for e, err := range r.all(ctx) {
			if (err != nil || r.rules.Mine(e)) && !yield(e, err) {
				return
			}
		}
	}
}

// all yields the rows of all shards, without tensors.
func (r rows) all(ctx context.Context) iter.Seq2[*stages.Element, error] { return r.each(ctx, false) }

// each is all, with tensors where they are wanted.
func (r rows) each(ctx context.Context, tensors bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for e, err := range r.source.Rows(ctx, tensors) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = r.rules.Apply(e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
