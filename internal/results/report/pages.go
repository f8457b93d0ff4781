package report

import (
	"bytes"
	"context"
	_ "embed" // the card
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"latentbeam/internal/results/gallery"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// pageWriter writes the gallery and the dataset card.
type pageWriter struct {
	place     place
	title     string
	made      Facts
	generates bool
	early     *early // state of an early report; nil: the job has ended
	selects   bool   // the job selects rows
	clips     bool   // the rows are media of the input, without videos in the output
	report    string // name of the page about the run; "": none
}

// gallery writes the pages of the gallery and removes further pages of an earlier run.
func (p *pageWriter) gallery(ctx context.Context, rows iter.Seq2[outcome, error], totals *Totals) error {
	page := gallery.Page{
		Title: p.title, Prefix: p.place.part, Total: int(totals.Done), Facts: p.facts(*totals),
		Failed: &totals.causes, Table: p.place.table("failures", 0), Items: convert(only(ledger.Done, rows), p.item),
	}
	if p.clips {
		page.Noun, page.Total = "clip", min(page.Total, gallery.PageSize)
		page.Items = convert(firstOf(page.Total, only(ledger.Done, rows)), p.clip)
	}
	if p.early != nil {
		page.Unfinished = &gallery.Unfinished{Left: totals.Pending, Written: time.Now(), Again: p.early.again}
	}
	err := gallery.WriteAll(page, func(name string, write func(io.Writer) error) error {
		return p.place.output.Replace(ctx, name, write)
	})
	for n := gallery.PageCount(page.Total) + 1; err == nil; n++ {
		name := p.place.part + gallery.PageName(n)
		if err = p.place.output.Store.Remove(ctx, name); errors.Is(err, fs.ErrNotExist) {
			err = nil
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write gallery: %w", err)
	}
	return nil
}

// facts returns the facts about the whole job for the head of a page.
func (p *pageWriter) facts(t Totals) []gallery.Detail {
	what := "Videos"
	if p.clips {
		what = "Clips"
	}
	facts := []gallery.Detail{{Name: "Model", Value: p.made.Model}, {Name: what, Value: strconv.FormatInt(t.Done, 10)}}
	if p.clips && t.Done > gallery.PageSize {
		facts = append(facts, gallery.Detail{Name: "Shown", Value: fmt.Sprintf("the first %d", gallery.PageSize)})
	}
	if t.Failed > 0 {
		facts = append(facts, gallery.Detail{Name: "Failed", Value: strconv.FormatInt(t.Failed, 10)})
	}
	if t.Pending > 0 {
		facts = append(facts, gallery.Detail{Name: "Pending", Value: strconv.FormatInt(t.Pending, 10)})
	}
	if a, ok := t.Agreement["all"]; ok {
		facts = append(facts, gallery.Detail{Name: "As prompted", Value: fmt.Sprintf("%d of %d", a.Equal, a.Of)})
	}
	if p.report != "" {
		facts = append(facts, gallery.Detail{Name: "Report", Value: "of the last run", Link: p.report})
	}
	return facts
}

// item returns the gallery's item for a row with a video.
func (p *pageWriter) item(o outcome) (gallery.Item, error) {
	v, r := o.result.Video, &o.Row
	if v == nil {
		return gallery.Item{}, fmt.Errorf("ledger record %s names no video", o.Key)
	}
	width, height, frames := sizeOf(v, r)
	details, err := p.details(&o)
	return gallery.Item{
		ID: r.ID, Source: path.Base(o.Given.Source), Prompt: r.Prompt, Video: v.Path, Outside: p.outsideURL(v), Poster: v.Poster,
		Width: width, Height: height, NumFrames: frames, FPS: r.FPS, Seed: *r.Seed, Sample: r.SampleIndex,
		Steps: r.NumInferenceSteps, Guidance: r.Guidance(), Model: p.made.Model, Key: o.Key.String(), Details: details,
	}, err
}

// outsideURL returns the URL of a video of the input; "": the video is in the output. The URL is relative if both are local files, so
// that the folders can be moved together. For a video in a bucket, which a browser cannot open, it is the URL of the poster.
func (p *pageWriter) outsideURL(v *schemas.VideoFile) string {
	if v.Path != "" {
		return ""
	}
	if scheme, _, address := strings.Cut(v.Source, "://"); address {
		if scheme == "http" || scheme == "https" {
			return v.Source
		}
		return (&url.URL{Path: v.Poster}).String()
	}
	return (&url.URL{Path: p.place.locate(v)}).String()
}

// clip returns the gallery's item for a row of media. It shows the part of the input's file from which the row was cut, if a browser
// can play it. The report makes no thumbnails, because a data set may have millions of clips.
func (p *pageWriter) clip(o outcome) (gallery.Item, error) {
	r := &o.Row
	details, err := p.details(&o)
	if c := r.Cut; c != nil {
		text := fmt.Sprintf("%d from frame %d on", c.Count, c.Start)
		if c.Flipped {
			text += ", mirrored"
		}
		details = append(details, gallery.Detail{Name: "Frames of the file", Value: text})
	}
	details = append(details, gallery.Detail{Name: "Media", Value: r.Media})
	it := gallery.Item{ID: r.ID, Source: path.Base(o.Given.Source), Prompt: o.caption(), Outside: p.mediaURL(r),
		Width: r.Width, Height: r.Height, NumFrames: r.NumFrames, FPS: r.FPS, Sample: r.SampleIndex, Unseeded: true, Model: p.made.Model,
		Key: o.Key.String(), Details: details}
	it.Unseen = it.Outside == ""
	return it, err
}

// File names that browsers can show.
var (
	shownVideos = regexp.MustCompile(`(?i)\.(mp4|m4v|mov|webm|ogv|mkv)$`)
	shownImages = regexp.MustCompile(`(?i)\.(png|jpe?g|webp|gif|avif|bmp)$`)
)

// mediaURL returns the URL of a row's media, with the time range of its clip; "": a browser cannot show it.
func (p *pageWriter) mediaURL(r *schemas.PromptRow) string {
	moves := shownVideos.MatchString(r.Media)
	if !moves && !shownImages.MatchString(r.Media) {
		return ""
	}
	at := p.place.locate(&schemas.VideoFile{Source: r.Media})
	if scheme, _, address := strings.Cut(at, "://"); address && scheme != "http" && scheme != "https" {
		return ""
	} else if !address {
		at = (&url.URL{Path: at}).String()
	}
	if c := r.Cut; c != nil && moves && r.FPS > 0 {
		at += fmt.Sprintf("#t=%.3f,%.3f", float64(c.Start)/r.FPS, float64(c.Start+c.Count)/r.FPS)
	}
	return at
}

// firstOf yields the first n rows.
func firstOf(n int, rows iter.Seq2[outcome, error]) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		if n == 0 {
			return
		}
		left := n
		for o, err := range rows {
			if left--; !yield(o, err) || left == 0 {
				return
			}
		}
	}
}

// sizeOf returns the size of a row's video. If the result does not have it, it is the size that the row asks for.
func sizeOf(v *schemas.VideoFile, r *schemas.PromptRow) (width, height, frames int) {
	if v.NumFrames > 0 {
		return v.Width, v.Height, v.NumFrames
	}
	return r.Width, r.Height, r.NumFrames
}

// details returns the facts of a row that only some jobs have: whether it is selected, marks, the negative prompt, carried columns, and
// readings.
func (p *pageWriter) details(o *outcome) ([]gallery.Detail, error) {
	var out []gallery.Detail
	if p.selects {
		yes := map[bool]string{true: "yes", false: "no"}
		out = append(out, gallery.Detail{Name: "Selected", Value: yes[o.selected]})
	}
	marks := ""
	if v := o.result.Video; v != nil {
		marks = v.Marks
	}
	if names, _, _ := strings.Cut(marks, ":"); names != "" {
		out = append(out, gallery.Detail{Name: gallery.MarkedName, Value: strings.ReplaceAll(names, "+", ", ")})
	}
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

// cardFile is the name of the dataset card. Loaders of datasets read it first, because it names the tables.
const cardFile = "README.md"

// cardMark is in every card of this program. A README.md without it was edited by a user and is never replaced.
const cardMark = "# Written by latentbeam. Remove this line, and runs leave this file as it is."

//go:embed card.md
var cardText string

var cardPage = template.Must(template.New("card").Parse(cardText))

// cardFacts are the values in the template of the card.
type cardFacts struct {
	Mark, Title, Model         string
	Licence, LicenceID         string // in words, and as the identifier in the front matter
	Revision                   string
	Synthetic                  bool
	Video, Latents, Embeddings bool
}

// plainLicence matches identifiers that are valid in the front matter.
var plainLicence = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// licenceID returns the identifier of a licence for the front matter: the licence itself, or "other".
func licenceID(licence string) string {
	if plainLicence.MatchString(licence) {
		return licence
	}
	return "other"
}

// card writes the dataset card. A report of one shard has no card, because loaders would read it as the whole data set.
func (p *pageWriter) card(ctx context.Context, keep map[stages.Kind]bool) error {
	if p.place.part != "" {
		return p.replaceOwn(ctx, cardFile, cardMark, nil)
	}
	var text bytes.Buffer
	err := cardPage.Execute(&text, cardFacts{Mark: cardMark, Title: oneLine(p.title), Model: oneLine(p.made.Model),
		Licence: oneLine(p.made.Licence), LicenceID: licenceID(p.made.Licence), Revision: oneLine(p.made.Revision), Synthetic: p.generates,
		Video: keep[stages.KindVideo], Latents: keep[stages.KindLatents], Embeddings: keep[stages.KindText]})
	if err != nil {
		return err
	}
	return p.replaceOwn(ctx, cardFile, cardMark, text.Bytes())
}

// replaceOwn replaces a file of this program; text nil removes it. It leaves a file without the mark as it is: users remove the mark
// from files that they edit.
func (p *pageWriter) replaceOwn(ctx context.Context, name, mark string, text []byte) error {
	there, err := store.ReadFile(ctx, p.place.output.Store, name)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return fmt.Errorf("read %s: %w", name, err)
	case !missing && !bytes.Contains(there, []byte(mark)):
		return nil
	case text == nil && missing:
		return nil
	case text == nil:
		return p.place.tensors.Remove(ctx, name)
	case bytes.Equal(text, there):
		p.place.output.Witness.Retain(name)
		return nil
	}
	return p.place.output.Replace(ctx, name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
