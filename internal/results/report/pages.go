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
	early     *early // while the job runs; nil: it has ended
	selects   bool   // the job selects rows
	clips     bool   // the rows are media of the input, and have no video of their own
	report    string // page about the run, "" where there is none
}

// gallery writes the pages of the gallery and removes those of an earlier, longer run.
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

// pageFacts is what a page says of the whole job.
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

func (p *pageWriter) item(o outcome) (gallery.Item, error) {
	v, r := o.result.Video, &o.Row
	if v == nil {
		return gallery.Item{}, fmt.Errorf("ledger record %s names no video", o.Key)
	}
	width, height, frames := sizeOf(v, r)
	details, err := p.details(&o)
	return gallery.Item{
		ID: r.ID, Source: path.Base(o.Given.Source), Prompt: r.Prompt, Video: v.Path, Outside: p.outside(v), Poster: v.Poster,
		Width: width, Height: height, NumFrames: frames, FPS: r.FPS, Seed: *r.Seed, Sample: r.SampleIndex,
		Steps: r.NumInferenceSteps, Guidance: r.Guidance(), Model: p.made.Model, Key: o.Key.String(), Details: details,
	}, err
}

// outside is the URL of a video of the input as the page shows it: relative to the page where both are local files, so that the folders may
// move together; its poster where a browser cannot play it. "" for a video in the output.
func (p *pageWriter) outside(v *schemas.VideoFile) string {
	if v.Path != "" {
		return ""
	}
	if scheme, _, address := strings.Cut(v.Source, "://"); address {
		if scheme == "http" || scheme == "https" {
			return v.Source
		}
		return (&url.URL{Path: v.Poster}).String()
	}
	return (&url.URL{Path: p.place.at(v)}).String()
}

// clip is a row of media, which the page shows as far as a browser can: the part of the file that the row was cut of. Nothing is made
// for the page, for a data set may have millions of clips.
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
	it := gallery.Item{ID: r.ID, Source: path.Base(o.Given.Source), Prompt: o.caption(), Outside: p.media(r),
		Width: r.Width, Height: r.Height, NumFrames: r.NumFrames, FPS: r.FPS, Sample: r.SampleIndex, Unseeded: true, Model: p.made.Model,
		Key: o.Key.String(), Details: details}
	it.Unseen = it.Outside == ""
	return it, err
}

// The endings of files that browsers show.
var (
	shownVideos = regexp.MustCompile(`(?i)\.(mp4|m4v|mov|webm|ogv|mkv)$`)
	shownImages = regexp.MustCompile(`(?i)\.(png|jpe?g|webp|gif|avif|bmp)$`)
)

// media is the URL of a row's media, with the time of its clip; "" where a browser cannot show it.
func (p *pageWriter) media(r *schemas.PromptRow) string {
	moves := shownVideos.MatchString(r.Media)
	if !moves && !shownImages.MatchString(r.Media) {
		return ""
	}
	at := p.place.at(&schemas.VideoFile{Source: r.Media})
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

// sizeOf is what a row's video has: what the row asks for, where the result says nothing else.
func sizeOf(v *schemas.VideoFile, r *schemas.PromptRow) (width, height, frames int) {
	if v.NumFrames > 0 {
		return v.Width, v.Height, v.NumFrames
	}
	return r.Width, r.Height, r.NumFrames
}

// details are the facts of a row that not every job has: whether it is selected, the negative prompt, carried columns, readings.
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

// cardFile is what loaders of datasets read first: it names the tables.
const cardFile = "README.md"

// cardMark is in every card of this program. A README.md without it is somebody's own and stays.
const cardMark = "# Written by latentbeam. Remove this line, and runs leave this file as it is."

//go:embed card.md
var cardText string

var cardPage = template.Must(template.New("card").Parse(cardText))

// cardFacts is what the card says of a job.
type cardFacts struct {
	Mark, Title, Model         string
	Licence, LicenceID         string // in words, and as the front matter has it
	Revision                   string
	Synthetic                  bool
	Video, Latents, Embeddings bool
}

// plainLicence are identifiers that front matter takes as they are.
var plainLicence = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// licenceID is a licence as front matter of a card has it: an identifier, unknown, or other.
func licenceID(licence string) string {
	if plainLicence.MatchString(licence) {
		return licence
	}
	return "other"
}

// card writes the dataset card. A report of one shard has none, for loaders would take it for all.
func (p *pageWriter) card(ctx context.Context, keep map[stages.Kind]bool) error {
	if p.place.part != "" {
		return p.own(ctx, cardFile, cardMark, nil)
	}
	var text bytes.Buffer
	err := cardPage.Execute(&text, cardFacts{Mark: cardMark, Title: oneLine(p.title), Model: oneLine(p.made.Model),
		Licence: oneLine(p.made.Licence), LicenceID: licenceID(p.made.Licence), Revision: oneLine(p.made.Revision), Synthetic: p.generates,
		Video: keep[stages.KindVideo], Latents: keep[stages.KindLatents], Embeddings: keep[stages.KindText]})
	if err != nil {
		return err
	}
	return p.own(ctx, cardFile, cardMark, text.Bytes())
}

// own replaces a file that people may make their own, by removing its mark; nil removes it.
func (p *pageWriter) own(ctx context.Context, name, mark string, text []byte) error {
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
