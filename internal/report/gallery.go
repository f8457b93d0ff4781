package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"latentbeam/internal/gallery"
)

// gallery writes the pages of the gallery and removes those of an earlier, longer run.
func (j *Job) gallery(ctx context.Context, totals Totals) error {
	page := gallery.Page{
		Title: j.Title, Prefix: j.Part, Total: int(totals.Done), Facts: j.pageFacts(totals),
		Items: convert(j.done(ctx), j.item),
	}
	err := gallery.WriteAll(page, func(name string, write func(io.Writer) error) error {
		return j.Replace(ctx, name, write)
	})
	for n := gallery.PageCount(page.Total) + 1; err == nil; n++ {
		name := j.Part + gallery.PageName(n)
		if err = j.Store.Remove(ctx, name); errors.Is(err, fs.ErrNotExist) {
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
		facts = append(facts, gallery.Detail{
			Name: "Failed", Value: strconv.FormatInt(t.Failed, 10), Link: j.tableName("failures", 0)})
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
	return gallery.Item{
		ID: r.ID, Prompt: r.Prompt, Video: v.Path, Poster: v.Poster,
		Width: r.Width, Height: r.Height, NumFrames: r.NumFrames, FPS: r.FPS, Seed: *r.Seed,
		Details: []gallery.Detail{
			{Name: "Steps", Value: strconv.Itoa(r.NumInferenceSteps)},
			{Name: "Guidance", Value: strconv.FormatFloat(r.Guidance(), 'g', -1, 64)},
			{Name: "Key", Value: o.Key.String()},
		},
	}, nil
}
