package report

import (
	"bytes"
	"context"
	"iter"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/results/gallery"
	"latentbeam/internal/results/tensors"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/system"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Job is what a report is made of.
type Job struct {
	Title   string
	Output  *fingerprints.Output
	Ledger  *ledger.Ledger
	Tensors *tensors.Home // of the output
	// Rows yields every row of the input in order, filled, checked and keyed, without tensors. A non-nil
	// error is about the whole table.
	Rows func(ctx context.Context) iter.Seq2[*stages.Element, error]
	Keep map[stages.Kind]bool // which tables are wanted: video, latents, text
	// RowsPerFile bounds the files of the tables; 0: their own bounds alone.
	RowsPerFile int
	// Names makes the names of videos for people in a directory; nil: none are given.
	Names *config.NameTemplate
	// Where chooses the videos that get names; nil: all.
	Where *where.Filter
	// Part tells the files of one shard from those of others, such as "00001-of-00004-"; "" for all.
	Part  string
	Clips bool // the job cuts clips of its media, and tables say which
	// Programs are the names of the stages that are programs.
	Programs []string
	// HalfLatents says that latents are values of bfloat16 and stand so in their table.
	HalfLatents bool
	// Alike says which rows are left out because they look like earlier ones; nil: none.
	Alike *stages.Alike
	// LastPage is the page about the run that writes the report, a name in the output to which the gallery leads; "": there is none.
	LastPage string
	// Media says that the rows are media of the input, which the gallery shows where the job makes no videos.
	Media bool
	// Select says which rows are marked as selected; nil: the tables have no such column.
	Select *Select
	// Scores says that the output gets scores.json, of the readings of Measures.
	Scores   bool
	Measures []stages.Measure
	// Limits bound the readings of rows: those beyond are left out.
	Limits stages.Limits
	// Recall brings the readings that are kept apart from results, of a row with a result; nil: there are none. Looks name what they
	// depend on.
	Recall func(e *stages.Element, r *schemas.Result) (lacking bool, err error)
	Looks  []string
	// TensorFacts is metadata of the files of tensor tables.
	TensorFacts map[string]string
	// Generates is that a model makes what the job gives: the dataset card has the tag synthetic.
	Generates bool
	Facts
}

// Facts are the provenance columns that all rows of a job share.
type Facts struct {
	Model, Weights, Class, Version string
	// Varies names the stages whose results may be others when a row is computed again. The metadata of tables have it.
	Varies string `digest:"later"`
	// Loras is the column `loras` of the tables of videos: a JSON list of adapters (file, scale, digest); "": there is none.
	Loras string `digest:"later"`
	// Licence and Revision are those of the model's weights: the columns model_licence and model_revision of the tables of videos, and
	// metadata of all tables. "" for both: the model is part of this program, and there are no such columns.
	Licence  string `digest:"later"`
	Revision string `digest:"later"`
}

// variesKey is the metadata of a table's file that names the stages of Facts.Varies.
const variesKey = "latentbeam.varies"

// licenceKey and revisionKey are the metadata with Facts.Licence and Facts.Revision.
const (
	licenceKey  = "latentbeam.model_licence"
	revisionKey = "latentbeam.model_revision"
)

// The keys of tensor tables' metadata that exports read, behind "latentbeam.". Latents of the space model are
// (raw - latents_mean) / latents_std, by channel.
const (
	LatentsMean = "latents_mean"
	LatentsStd  = "latents_std"
)

// options are those of a table's file.
func (f Facts) options() write.Options {
	o := write.Options{Version: f.Version, Metadata: map[string]string{}}
	for key, value := range map[string]string{variesKey: f.Varies, licenceKey: f.Licence, revisionKey: f.Revision} {
		if value != "" {
			o.Metadata[key] = value
		}
	}
	return o
}

// Write writes all tables and the gallery of the job and removes those of earlier runs that no longer
// belong to it. It goes over the input twice: to see what there is, and to write all that depends on it.
func (j *Job) Write(ctx context.Context) (Totals, error) {
	totals, err := j.write(ctx, nil)
	if err == nil {
		err = j.pages(nil).card(ctx, j.Keep)
	}
	if err == nil {
		err = j.pages(nil).croissant(ctx, j.Keep)
	}
	if err == nil {
		err = j.place().removeOthers(ctx, j.Keep, j.Gallery() != "")
	}
	return totals, err
}

// WriteEarly writes what there is while rows are still computed: the tables of videos and failures, the pages with a
// note of an unfinished job, and complete new files of tensor tables. It removes nothing, and the final Write leaves
// the same files as without it. again is the time until it is called again. Nobody else uses j meanwhile; the ledger
// may grow.
func (j *Job) WriteEarly(ctx context.Context, again time.Duration) error {
	_, err := j.write(ctx, &early{again: again})
	return err
}

// write goes over the input twice; early is nil where the job has ended.
func (j *Job) write(ctx context.Context, early *early) (Totals, error) {
	defer system.CollectOften()()
	w := &walk{rows: j.Rows, ledger: j.Ledger, alike: j.Alike, limits: j.Limits, recall: j.Recall, early: early}
	tables := newTableWriter(j.place(), j.Facts, atMost(j.RowsPerFile, videosPerFile))
	tensors := j.tensors(ctx, w)
	if j.Select != nil {
		tables.done.mark(selectedColumn)
	}
	totals, err := j.learn(ctx, w, tables, tensors)
	if err != nil {
		return totals, err
	}
	readers := []rowReader{func(rows iter.Seq2[outcome, error]) error { return tables.failures(ctx, rows) }}
	for _, t := range tensors {
		readers = append(readers, func(rows iter.Seq2[outcome, error]) error {
			if early != nil {
				return t.gain(ctx, rows)
			}
			return t.write(ctx, rows)
		})
	}
	if j.Gallery() != "" {
		pages := j.pages(early)
		readers = append(readers, func(rows iter.Seq2[outcome, error]) error { return pages.gallery(ctx, rows, &totals) })
	}
	if j.Keep[stages.KindVideo] {
		readers = append(readers, func(rows iter.Seq2[outcome, error]) error { return tables.videos(ctx, rows) })
		if early == nil && j.Part == "" {
			readers = append(readers, func(rows iter.Seq2[outcome, error]) error { return tables.dataset(ctx, rows) })
		}
		if early == nil && j.Part == "" && j.Scores {
			readers = append(readers, func(rows iter.Seq2[outcome, error]) error { return j.scores(ctx, rows) })
		}
		if early == nil && j.Names != nil {
			readers = append(readers, func(rows iter.Seq2[outcome, error]) error { return tables.names(rows, j.Names, j.Where) })
		}
	}
	return totals, share(w.settled(ctx), readers...)
}

// Gallery names the first page for people who look: of the videos, or of the media that tensors were made of; "" where there is none.
func (j *Job) Gallery() string {
	if !j.Keep[stages.KindVideo] && !j.Media {
		return ""
	}
	return j.Part + gallery.PageName(1)
}

// learn goes over the input, counts the rows and lets the tables see what they will hold. Tables of tensors see the rows
// before the first that is not settled, while the job runs: which file the others belong to is not known yet.
func (j *Job) learn(ctx context.Context, w *walk, tables *tableWriter, tensors []tensorTable) (Totals, error) {
	totals, digest, selection := Totals{programs: j.Programs}, j.Digest(), newSelection(j.Select)
	for o, err := range w.each(ctx, nil) {
		if err != nil {
			return totals, err
		}
		w.early.note(&o)
		digest.row = appendRow(digest.row[:0], o.Element)
		digest.add(o.Element, o.recorded())
		if o.status == ledger.Failed || o.status == ledger.Done && j.Recall != nil || bytes.Contains(o.record.Row, []byte(`"readings"`)) { // spare the others parsing
			if err := o.parse(); err != nil {
				return totals, err
			}
		}
		if selection != nil && o.status == ledger.Done {
			err := o.parse()
			if err == nil {
				err = selection.learn(&o)
			}
			if err != nil {
				return totals, err
			}
		}
		totals.count(&o)
		if err := tables.learn(&o); err != nil {
			return totals, err
		}
		if o.status != ledger.Done || w.early != nil && w.early.left {
			continue
		}
		for _, t := range tensors {
			if err := t.learn(&o, digest.row); err != nil {
				return totals, err
			}
		}
	}
	if selection != nil {
		w.selected = selection.rows()
	}
	totals.Input = digest.Sum()
	return totals, nil
}

// tensors are the tables of tensors that the job keeps.
func (j *Job) tensors(ctx context.Context, rows *walk) (kept []tensorTable) {
	w := &tensorWriter{place: j.place(), facts: j.Facts, rowsPerFile: j.RowsPerFile, metadata: j.TensorFacts, half: j.HalfLatents}
	if j.Select != nil {
		w.selected = func() map[int]bool { return rows.selected }
	}
	if j.Keep[stages.KindText] {
		kept = append(kept, w.embeddings(ctx))
	}
	if j.Keep[stages.KindLatents] {
		kept = append(kept, w.latents(ctx, j.Clips))
	}
	return kept
}

func (j *Job) pages(early *early) *pageWriter {
	p := &pageWriter{place: j.place(), title: j.Title, made: j.Facts, generates: j.Generates, early: early, selects: j.Select != nil,
		clips: !j.Keep[stages.KindVideo]}
	if early == nil {
		p.report = j.LastPage
	}
	return p
}

func (j *Job) place() place { return place{j.Output, j.Tensors, j.Part} }

// atMost is the number of rows of a table's files: n, or what the job says where that is less.
func atMost(job, n int) int {
	if job > 0 {
		n = min(n, job)
	}
	return max(1, n)
}
