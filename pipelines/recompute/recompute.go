// Package recompute computes finished rows again and compares the results with the stored ones.
package recompute

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"

	"latentbeam/internal/engine"
	"latentbeam/internal/storage/ledger"
	"latentbeam/kernels"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/input"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Rows computes finished rows again. It writes nothing.
type Rows struct {
	Engine    *engine.Engine
	Rows      input.Rows
	Predictor *forecast.Predictor // predictor of the job
}

// Found is the result of Compare.
type Found struct {
	Rows   int      // number of rows that were computed again
	Differ []string // differences, such as "prompts.csv:3: the video"
}

// Compare computes about n finished rows again, evenly spread over the input, and compares the results with the digests in the ledger.
// done is the number of finished rows.
func (r Rows) Compare(ctx context.Context, done int64, n int) (found Found, err error) {
	every := max(1, int(done)/max(1, n))
	var sample forecast.Work
	if err := r.eachDone(ctx, every, false, func(e *stages.Element, _ schemas.Result) error {
		sample.Add(e)
		return nil
	}); err != nil {
		return found, err
	}
	if err := r.Predictor.Prepare(ctx, sample); err != nil {
		return found, err
	}
	err = r.eachDone(ctx, every, true, func(e *stages.Element, was schemas.Result) error {
		found.Rows++
		what, err := r.compute(ctx, e, was)
		for _, w := range what {
			found.Differ = append(found.Differ, path.Base(e.Given.Source)+": "+w)
		}
		return err
	})
	return found, err
}

// eachDone calls fn for the first of every `every` finished rows.
func (r Rows) eachDone(ctx context.Context, every int, tensors bool, fn func(*stages.Element, schemas.Result) error) error {
	cursor := r.Engine.Ledger.Cursor()
	defer cursor.Close()
	at := 0
	for e, err := range r.Rows.Each(ctx, tensors) {
		if err != nil {
			return err
		}
		if e.Failed != nil {
			continue
		}
		rec, err := cursor.Find(ledger.Key(e.Key))
		if err != nil {
			return err
		}
		if rec.Status != ledger.Done {
			continue
		}
		if at++; (at-1)%every > 0 {
			continue
		}
		var was schemas.Result
		if err := json.Unmarshal(rec.Row, &was); err != nil {
			return err
		}
		if err := fn(e, was); err != nil {
			return err
		}
	}
	return nil
}

// compute computes a row and returns the names of its results that differ from the stored ones.
func (r Rows) compute(ctx context.Context, e *stages.Element, was schemas.Result) (differ []string, err error) {
	set, release, err := r.Engine.Schedule.Pool.LeaseSet(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { release(err == nil) }()
	for i := range r.Engine.Schedule.Steps {
		s := &r.Engine.Schedule.Steps[i]
		if err := engine.RunStep(ctx, s, set, []*stages.Element{e}); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if e.Failed != nil {
			return []string{"it failed: " + e.Failed.Error()}, nil
		}
		switch s.Gives {
		case stages.KindText:
			if e.Text != nil && was.TextSHA256 != "" && floatsSHA256(e.Text.Embedding) != was.TextSHA256 {
				differ = append(differ, "the embedding")
			}
		case stages.KindLatents:
			z := e.Latents
			if was.LatentSpace == stages.RawSpace {
				z = e.RawLatents
			}
			if was.LatentsSHA256 != "" && (z == nil || floatsSHA256(z) != was.LatentsSHA256) {
				differ = append(differ, "the latents")
			}
		case stages.KindVideo:
			if e.Video != nil && was.Video != nil {
				if sum := sha256.Sum256(e.Video.Data); hex.EncodeToString(sum[:]) != was.Video.ContentSHA256() {
					differ = append(differ, "the video")
				}
			}
		}
	}
	return differ, nil
}

// floatsSHA256 returns the digest of an array in the form in which tables store it.
func floatsSHA256(a *stages.Array) string {
	sum := sha256.Sum256(kernels.F32.Bytes(a.Data))
	return hex.EncodeToString(sum[:])
}
