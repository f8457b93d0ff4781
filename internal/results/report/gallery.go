package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"latentbeam/internal/results/gallery"
	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
)

// gallery writes the pages of the gallery and removes those of an earlier, longer run.
func (j *Job) gallery(ctx context.Context, rows iter.Seq2[outcome, error], totals *Totals) error {
	page := gallery.Page{
		Title: j.Title, Prefix: j.Part, Total: int(totals.Done), Facts: j.pageFacts(*totals),
		Failed: &totals.causes, Table: j.tableName("failures", 0), Items: convert(only(ledger.Done, rows), j.item),
	}
	if j.early != nil {
		page.Unfinished = &gallery.Unfinished{Left: totals.Pending, Written: time.Now(), Again: j.early.again}
	}
	err := gallery.WriteAll(page, func(name string, write func(io.Writer) error) error {
		return j.Output.Replace(ctx, name, write)
	})
	for n := gallery.PageCount(page.Total) + 1; err == nil; n++ {
		name := j.Part + gallery.PageName(n)
		if err = j.Output.Store.Remove(ctx, name); errors.Is(err, fs.ErrNotExist) {
			err = nil
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write gallery: %w", err)
	}
	return nil
}

// pageFacts is what a page says of the whole job.
func (j *Job) pageFacts(t Totals) []gallery.Detail {
	facts := []gallery.Detail{{Name: "Model", Value: j.Model}, {Name: "Videos", Value: strconv.FormatInt(t.Done, 10)}}
	if t.Failed > 0 {
		facts = append(facts, gallery.Detail{Name: "Failed", Value: strconv.FormatInt(t.Failed, 10)})
	}
	if t.Pending > 0 {
		facts = append(facts, gallery.Detail{Name: "Pending", Value: strconv.FormatInt(t.Pending, 10)})
	}
	if a, ok := t.Agreement["all"]; ok {
		facts = append(facts, gallery.Detail{Name: "As prompted", Value: fmt.Sprintf("%d of %d", a.Equal, a.Of)})
	}
	return facts
}

func (j *Job) item(o outcome) (gallery.Item, error) {
	v, r := o.result.Video, &o.Row
	if v == nil {
		return gallery.Item{}, fmt.Errorf("ledger record %s names no video", o.Key)
	}
	width, height, frames := sizeOf(v, r)
	details, err := j.details(&o)
	return gallery.Item{
		ID: r.ID, Source: path.Base(o.Given.Source), Prompt: r.Prompt, Video: v.Path, Poster: v.Poster,
		Width: width, Height: height, NumFrames: frames, FPS: r.FPS, Seed: *r.Seed,
		Steps: r.NumInferenceSteps, Guidance: r.Guidance(), Model: j.Model, Key: o.Key.String(), Details: details,
	}, err
}

// sizeOf is what a row's video has: what the row asks for, where the result says nothing else.
func sizeOf(v *schemas.VideoFile, r *schemas.PromptRow) (width, height, frames int) {
	if v.NumFrames > 0 {
		return v.Width, v.Height, v.NumFrames
	}
	return r.Width, r.Height, r.NumFrames
}

// details are the facts of a row that not every job has: the negative prompt, carried columns, readings.
func (j *Job) details(o *outcome) ([]gallery.Detail, error) {
	var out []gallery.Detail
	if o.Row.NegativePrompt != "" {
		out = append(out, gallery.Detail{Name: "Negative prompt", Value: o.Row.NegativePrompt})
	}
	if o.Row.Extra != "" {
		carried, err := schemas.Carried(o.Row.Extra)
		if err != nil {
			return nil, fmt.Errorf("carried columns of %s: %w", o.Given.Source, err)
		}
		for _, c := range carried {
			out = append(out, gallery.Detail{Name: c.Name, Value: c.Text()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.result.Readings)) {
		out = append(out, gallery.Detail{Name: "Measured " + name, Value: o.result.Readings[name]})
	}
	return out, nil
}
