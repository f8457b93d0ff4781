package pipelines

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"latentbeam/internal/engine"
	"latentbeam/internal/storage/ledger"
	"latentbeam/kernels"
	"latentbeam/pipelines/forecast"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Recomputed says what Recompute has found.
type Recomputed struct {
	Rows   int      // that were computed again
	Differ []string // what differs: "prompts.csv:3: the video"
}

// varying names the stages whose results may be others when a row is computed again.
func (j *Job) varying() (names []string) {
	for _, s := range j.engine.Schedule.Steps {
		if s.Capabilities().Varies {
			names = append(names, s.Name)
		}
	}
	return names
}

// Recompute computes about n of the rows again that are done, spread over the input, and compares what comes out with the
// digests of the ledger. Nothing is written. The job has looked at its output (Peek).
func (j *Job) Recompute(ctx context.Context, n int) (r Recomputed, err error) {
	if names := j.varying(); len(names) > 0 {
		return r, fault.Usage(fmt.Errorf("nothing can be compared: the results of stage %s may be others when a row is computed again; "+
			"where they are not, write deterministic: true into its options", strings.Join(names, ", ")))
	}
	if err := j.Ready(); err != nil {
		return r, err
	}
	p, err := j.Plan(ctx)
	if err == nil && p.Done == 0 {
		err = fault.Usage(fmt.Errorf("no row of the job, as it is now, is done: there is nothing to compare"))
	}
	if err != nil {
		return r, err
	}
	every := max(1, int(p.Done)/max(1, n))
	var sample forecast.Work
	again := recomputation{j.engine, j.rows}
	if err := again.eachDone(ctx, every, false, func(e *stages.Element, _ schemas.Result) error {
		sample.Add(e)
		return nil
	}); err != nil {
		return r, err
	}
	if err := j.Forecast().Prepare(ctx, sample); err != nil {
		return r, err
	}
	err = again.eachDone(ctx, every, true, func(e *stages.Element, was schemas.Result) error {
		r.Rows++
		what, err := again.compute(ctx, e, was)
		for _, w := range what {
			r.Differ = append(r.Differ, path.Base(e.Given.Source)+": "+w)
		}
		return err
	})
	return r, err
}

// recomputation computes rows again that are done.
type recomputation struct {
	engine *engine.Engine
	rows   rows
}

// eachDone calls fn with every so many of the rows that are done.
func (r recomputation) eachDone(ctx context.Context, every int, tensors bool, fn func(*stages.Element, schemas.Result) error) error {
	cursor := r.engine.Ledger.Cursor()
	defer cursor.Close()
	at := 0
	for e, err := range r.rows.each(ctx, tensors) {
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

// compute computes a row and says in what it differs from its result.
func (r recomputation) compute(ctx context.Context, e *stages.Element, was schemas.Result) (differ []string, err error) {
	set, release, err := r.engine.Schedule.Pool.LeaseSet(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { release(err == nil) }()
	for i := range r.engine.Schedule.Steps {
		s := &r.engine.Schedule.Steps[i]
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

// floatsSHA256 is the digest of an array as tables hold it.
func floatsSHA256(a *stages.Array) string {
	sum := sha256.Sum256(kernels.F32.Bytes(a.Data))
	return hex.EncodeToString(sum[:])
}
