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

// Job holds everything from which a report is made.
type Job struct {
	Title   string
	Output  *fingerprints.Output
	Ledger  *ledger.Ledger
	Tensors *tensors.Home // tensors of the output
	// Rows yields every row of the input in order, with defaults and keys and without tensors. An
	// error concerns the whole input.
	Rows func(ctx context.Context) iter.Seq2[*stages.Element, error]
	Keep map[stages.Kind]bool // kinds of results that get tables: video, latents, text
	// RowsPerFile limits the rows of one file of a table; 0: only the limits of this package.
	RowsPerFile int
	// Names is the template of readable names for videos; nil: no names.
	Names *config.NameTemplate
	// Where chooses the videos that get names; nil: all.
	Where *where.Filter
	// Part is the prefix of the files of one shard, such as "00001-of-00004-"; "": all rows.
	Part  string
	Clips bool // the job cuts its media into clips; tables have columns for the cut
	// Programs lists the stages that are programs.
	Programs []string
	// HalfLatents says that latents are bfloat16 values and are stored as bfloat16 in their table.
	HalfLatents bool
	// Alike is the rule that drops rows that look like earlier ones; nil: none are dropped.
	Alike *stages.Alike
	// LastPage is the name in the output of the page about the current run, to which the gallery links; "": none.
	LastPage string
	// Media says that the rows are media of the input. The gallery shows them if the job makes no videos.
	Media bool
	// Select is the rule that selects rows; nil: the tables have no column for it.
	Select *Select
	// Scores says that the report includes scores.json, with the readings of Measures.
	Scores   bool
	Measures []stages.Measure
	// Limits are the limits of readings. Rows outside of them are dropped.
	Limits stages.Limits
	// Recall adds readings that are stored apart from results to the result of a row; nil: there are none. Looks are the names and versions of
	// the measures of these readings.
	Recall func(e *stages.Element, r *schemas.Result) (lacking bool, err error)
	Looks  []string
	// TensorFacts is metadata for the files of tensor tables.
	TensorFacts map[string]string
	// Generates says that a model generates the results. The dataset card then has the tag synthetic.
	Generates bool
	Facts
}

// Facts are the provenance columns that all rows of a job share.
type Facts struct {
	Model, Weights, Class, Version string
	// Varies lists the stages whose results can differ when a row is computed again. It is in the metadata of tables.
	Varies string `digest:"later"`
	// Loras is the column `loras` of the tables of videos: a JSON list of adapters (file, scale, digest); "": no column.
	Loras string `digest:"later"`
	// Licence and Revision describe the model's weights. They are the columns model_licence and model_revision of the tables of videos,
	// and in the metadata of all tables. Both "": the model is part of this program, and the tables have no such columns.
	Licence  string `digest:"later"`
	Revision string `digest:"later"`
}

// variesKey is the metadata key of Facts.Varies.
const variesKey = "latentbeam.varies"

// licenceKey and revisionKey are the metadata keys of Facts.Licence and Facts.Revision.
const (
	licenceKey  = "latentbeam.model_licence"
	revisionKey = "latentbeam.model_revision"
)

// Metadata keys of tensor tables that exports read, without the prefix "latentbeam.". Latents in the space "model" are
// (raw - latents_mean) / latents_std, by channel.
const (
	LatentsMean = "latents_mean"
	LatentsStd  = "latents_std"
)

// options returns the options for writing a table's file.
func (f Facts) options() write.Options {
	o := write.Options{Version: f.Version, Metadata: map[string]string{}}
	for key, value := range map[string]string{variesKey: f.Varies, licenceKey: f.Licence, revisionKey: f.Revision} {
		if value != "" {
			o.Metadata[key] = value
		}
	}
	return o
}

// Write writes all tables and the gallery of the job, and removes files of earlier runs that the job no longer
// has. It reads the input twice: first to count the rows and learn the columns, then to write.
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

// WriteEarly writes a report of the finished rows while others are still computed: the tables of videos and failures, the pages
// with a note that the job is unfinished, and new full files of tensor tables. It removes nothing, and the final Write
// produces the same files with or without it. again is the time until the next call. The ledger may grow meanwhile, but nobody
// else may use j.
func (j *Job) WriteEarly(ctx context.Context, again time.Duration) error {
	_, err := j.write(ctx, &early{again: again})
	return err
}

// write writes the report; early is nil if the job has ended.
func (j *Job) write(ctx context.Context, early *early) (Totals, error) {
	defer system.CollectOften()()
	w := &walk{rows: j.Rows, ledger: j.Ledger, alike: j.Alike, limits: j.Limits, recall: j.Recall, early: early}
	tables := newTableWriter(j.place(), j.Facts, atMost(j.RowsPerFile, videosPerFile))
	tensors := j.tensors(ctx, w)
	if j.Select != nil {
		tables.done.addFlag(selectedColumn)
	}
	totals, err := j.learn(ctx, w, tables, tensors)
	if err != nil {
		return totals, err
	}
	readers := []rowReader{func(rows iter.Seq2[outcome, error]) error { return tables.failures(ctx, rows) }}
	for _, t := range tensors {
		readers = append(readers, func(rows iter.Seq2[outcome, error]) error {
			if early != nil {
				return t.writeFull(ctx, rows)
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
	return totals, fanOut(w.settled(ctx), readers...)
}

// Gallery returns the name of the gallery's first page, of videos or of the media from which tensors were made; "": no gallery.
func (j *Job) Gallery() string {
	if !j.Keep[stages.KindVideo] && !j.Media {
		return ""
	}
	return j.Part + gallery.PageName(1)
}

// learn reads the input, counts the rows and passes them to the learn methods of the tables. In an early report, tables of tensors
// get only the rows before the first unsettled one, because the file number of later rows is not known yet.
func (j *Job) learn(ctx context.Context, w *walk, tables *tableWriter, tensors []tensorTable) (Totals, error) {
	totals, digest, selection := Totals{programs: j.Programs}, j.Digest(), newSelection(j.Select)
	for o, err := range w.each(ctx, nil) {
		if err != nil {
			return totals, err
		}
		w.early.record(&o)
		digest.row = appendRow(digest.row[:0], o.Element)
		digest.add(o.Element, o.recorded())
		if o.status == ledger.Failed || o.status == ledger.Done && j.Recall != nil || bytes.Contains(o.record.Row, []byte(`"readings"`)) { // do not parse rows without readings
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
		if o.status != ledger.Done || w.early != nil && w.early.incomplete {
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

// tensors returns the tables of tensors that the job writes.
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

// pages returns the writer of the pages.
func (j *Job) pages(early *early) *pageWriter {
	p := &pageWriter{place: j.place(), title: j.Title, made: j.Facts, generates: j.Generates, early: early, selects: j.Select != nil,
		clips: !j.Keep[stages.KindVideo]}
	if early == nil {
		p.report = j.LastPage
	}
	return p
}

// place returns the place of the job's report.
func (j *Job) place() place { return place{j.Output, j.Tensors, j.Part} }

// atMost returns the maximal number of rows of a table's files: n, or the job's limit if it is lower.
func atMost(job, n int) int {
	if job > 0 {
		n = min(n, job)
	}
	return max(1, n)
}
