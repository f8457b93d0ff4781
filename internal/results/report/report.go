package report

import (
	"context"
	"iter"

	"latentbeam/internal/config"
	"latentbeam/internal/results/gallery"
	"latentbeam/internal/storage/ledger"

	"latentbeam/internal/results/tensors"
	"latentbeam/internal/storage/fingerprints"
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
	// Part tells the files of one shard from those of others, such as "00001-of-00004-"; "" for all.
	Part  string
	Clips bool // the job cuts clips of its media, and tables say which
	// Programs are the names of the stages that are programs.
	Programs []string
	// HalfLatents says that latents are values of bfloat16 and stand so in their table.
	HalfLatents bool
	// Alike says which rows are left out because they look like earlier ones; nil: none.
	Alike *stages.Alike
	// TensorFacts is metadata of the files of tensor tables.
	TensorFacts map[string]string
	Facts

	early *early // while the job runs; nil: it has ended
}

// Facts are the provenance columns that all rows of a job share.
type Facts struct {
	Model, Weights, Class, Version string
	// Varies names the stages whose results may be others when a row is computed again. The metadata of tables have it.
	Varies string `digest:"later"`
	// Loras is the column `loras` of the tables of videos: a JSON list of adapters (file, scale, digest); "": there is none.
	Loras string `digest:"later"`
}

// variesKey is the metadata of a table's file that names the stages of Facts.Varies.
const variesKey = "latentbeam.varies"

// The keys of tensor tables' metadata that exports read, behind "latentbeam.". Latents of the space model are
// (raw - latents_mean) / latents_std, by channel.
const (
	LatentsMean = "latents_mean"
	LatentsStd  = "latents_std"
)

// options are those of a table's file.
func (j *Job) options() write.Options {
	o := write.Options{Version: j.Version}
	if j.Varies != "" {
		o.Metadata = map[string]string{variesKey: j.Varies}
	}
	return o
}

// Totals is what a pass over the input found.
type Totals struct {
	Rows   int64 `json:"rows"`   // input rows, several videos of one prompt counted singly
	Done   int64 `json:"done"`   // with a result
	Failed int64 `json:"failed"` // in the failures table
	// Final are computed rows among the failed that would fail again as they are: no program, no device and no file of
	// somebody else is the cause.
	Final   int64 `json:"final_failures,omitempty"`
	Pending int64 `json:"pending"` // neither, because the run ended early
	// Dropped are left out by the job's own rules. They stand in the failures table, and do not count as failed.
	Dropped int64 `json:"dropped,omitempty"`
	// First are the first of those that failed, at most firstFailures, for those who read no parquet.
	First []Failed `json:"first_failures,omitempty"`
	// Agreement counts, for every reading that has a column of its name in the prompt table, how many
	// rows have both and how many of those are equal; "all" are the rows that agree in everything.
	Agreement map[string]Agreement `json:"agreement,omitempty"`
	// Input is the digest of the rows and their outcomes, see Digest.
	Input string `json:"-"`

	programs []string       // stages that are programs
	failed   Columns        // what the table of failures has of the input
	causes   gallery.Causes // what the gallery says of failed rows
	columns  Columns        // what the tables of videos have of the input and of readings
}

// newTotals has counted nothing yet.
func (j *Job) newTotals() Totals {
	t := Totals{failed: ColumnsOf[schemas.FailureRow](), columns: ColumnsOf[schemas.DatasetRow]()}
	t.programs = j.Programs
	if j.Loras != "" {
		t.columns.fix("loras", j.Loras)
	}
	return t
}

// Causes lists why rows failed, as far as this pass has seen them.
func (t Totals) Causes() []gallery.Cause { return t.causes.List() }

// firstFailures bounds the failed rows that the totals name, messageBytes what they say of each.
const (
	firstFailures = 5
	messageBytes  = 1 << 10
)

// Failed says of a row why it failed.
type Failed struct {
	Source  string `json:"source"` // "shapes.csv:17"
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// Agreement is how often a reading equals its column.
type Agreement struct {
	Equal int64 `json:"equal"`
	Of    int64 `json:"of"`
}

// Write writes all tables and the gallery of the job and removes those of earlier runs that no longer
// belong to it. It goes over the input twice: to see what there is, and to write all that depends on it.
func (j *Job) Write(ctx context.Context) (Totals, error) {
	totals := j.newTotals()
	made := j.tensors(ctx)
	err := j.failures(ctx, &totals, made)
	if err == nil {
		err = share(j.settled(ctx), j.readers(ctx, &totals, made)...)
	}
	if err == nil {
		err = j.card(ctx)
	}
	if err == nil {
		err = j.removeOthers(ctx)
	}
	return totals, err
}

// readers are those of the second pass.
func (j *Job) readers(ctx context.Context, totals *Totals, made []tensorsMade) (all []rowReader) {
	if len(totals.failed.List()) > 0 {
		all = append(all, func(rows iter.Seq2[outcome, error]) error { return j.wideFailures(ctx, rows, &totals.failed) })
	}
	for _, t := range made {
		all = append(all, func(rows iter.Seq2[outcome, error]) error { return t.write(ctx, rows) })
	}
	if j.Keep[stages.KindVideo] {
		all = append(all, j.readersOfVideos(ctx, totals)...)
	}
	return all
}

// readersOfVideos write the tables of videos and the pages, and where the job has ended, the table of the dataset and
// the names.
func (j *Job) readersOfVideos(ctx context.Context, totals *Totals) []rowReader {
	all := []rowReader{
		func(rows iter.Seq2[outcome, error]) error { return j.videos(ctx, rows, &totals.columns) },
		func(rows iter.Seq2[outcome, error]) error { return j.gallery(ctx, rows, totals) },
	}
	if j.early == nil && j.Part == "" {
		all = append(all, func(rows iter.Seq2[outcome, error]) error { return j.dataset(ctx, rows, &totals.columns) })
	}
	if j.early == nil && j.Names != nil {
		all = append(all, j.name)
	}
	return all
}

// tensors are the tables of tensors that the job keeps.
func (j *Job) tensors(ctx context.Context) (made []tensorsMade) {
	if j.Keep[stages.KindText] {
		size := func(r schemas.Result) int {
			return 4 * (product(r.TextShape) + product(r.NegativeTextShape) + product(r.LaterShape()))
		}
		made = append(made, &tensorTable[schemas.EmbeddingRow]{job: j, name: "embeddings",
			row: func(o outcome) (schemas.EmbeddingRow, error) { return j.embeddingRow(ctx, o) }, size: size})
	}
	if j.Keep[stages.KindLatents] {
		made = append(made, j.latents(ctx))
	}
	return made
}

// perFile is the number of rows of a table's files, at most n.
func (j *Job) perFile(n int) int {
	if j.RowsPerFile > 0 {
		n = min(n, j.RowsPerFile)
	}
	return max(1, n)
}
