package input

import (
	"context"
	"iter"

	"latentbeam/internal/engine"
	"latentbeam/internal/engine/keys"
	"latentbeam/stages"
)

// Rows reads the rows of an input. It fills in defaults, checks the rows and computes their keys by the rules of a job.
type Rows struct {
	Source engine.RowSource
	Rules  *keys.Rules
}

// Mine yields the rows of this shard without tensors.
func (r Rows) Mine(ctx context.Context) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for e, err := range r.All(ctx) {
			if (err != nil || r.Rules.Mine(e)) && !yield(e, err) {
				return
			}
		}
	}
}

// All yields the rows of all shards without tensors.
func (r Rows) All(ctx context.Context) iter.Seq2[*stages.Element, error] { return r.Each(ctx, false) }

// Each yields the rows of all shards, with or without tensors.
func (r Rows) Each(ctx context.Context, tensors bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for e, err := range r.Source.Rows(ctx, tensors) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = r.Rules.Apply(e)
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
