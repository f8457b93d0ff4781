// Package export writes the latents and text embeddings of a finished output in the formats of trainers. It streams the rows:
// it holds one row in memory, and about 200 bytes for each row of another job's embeddings.
package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"latentbeam/internal/results/report"
	"latentbeam/internal/results/tables"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Options are the options of Run.
type Options struct {
	To   string      // name of the format, one of Formats
	Text store.Store // output from which embeddings are read; nil: the embeddings in the table of latents
	VAE  *Statistics // statistics of the autoencoder; nil: not known
	// Where chooses the rows by their columns; nil: all.
	Where *where.Filter
	// Watermarked allows rows whose videos have a watermark.
	Watermarked bool
}

// Done counts what was written.
type Done struct {
	Rows, Files, Bytes int64
	NoText             int64  // rows without a text embedding
	Fix                string // how to give them one
}

// sample is one row with its tensors.
type sample struct {
	row  schemas.LatentRow // VAELatentBytes are converted to float32
	half bool              // the table stores the latent in bfloat16
	text []byte            // float32 (L, D), only valid tokens; nil: the row has no text
	len  []int64           // shape of text
	vae  *Statistics       // statistics of the autoencoder in the table's metadata; nil: none
	// facts are the metadata of the table, without the prefix "latentbeam.".
	facts map[string]string
	cut   cutRow
	src   string // for messages
}

// cutRow reads the columns of a table of clips that describe the part of the file that was encoded. Other tables have only
// the id.
type cutRow struct {
	ID         string `parquet:"id"`
	FrameStart int64  `parquet:"frame_start"`
	FrameCount int64  `parquet:"frame_count"`
	CropX      int64  `parquet:"crop_x"`
	CropY      int64  `parquet:"crop_y"`
	Flipped    int64  `parquet:"flipped"`
}

// Schema implements schemas.Row. It is not used, because the row is only read.
func (cutRow) Schema() string { return "" }

// ByteSize implements schemas.Row.
func (cutRow) ByteSize() int { return 0 }

// bucket returns the name of the folder for samples of one shape: WIDTHxHEIGHTxFRAMES.
func (s *sample) bucket() string {
	return fmt.Sprintf("%dx%dx%d", s.row.Width, s.row.Height, s.row.VideoFrames)
}

// writer writes samples in one format.
type writer interface {
	add(s *sample) error
	close() error
}

// format is a format of a trainer.
type format struct {
	open  func(o *out) writer // opens a writer of latents and texts
	space string              // space of its latents; "": the space of the table
	dtype string              // type of its tensors; "": the type of the table
	// videos writes the chosen videos of an output instead of latents and texts. It returns the number of rows in their table.
	videos func(ctx context.Context, s store.Store, o *out, chosen *where.Filter) (rows int64, err error)
}

// formats maps names to formats.
var formats = map[string]format{
	"fastvideo":   {open: func(o *out) writer { return newFastVideo(o) }, space: stages.RawSpace, dtype: stages.Float32},
	"hf":          {open: func(o *out) writer { return newHuggingFace(o) }, dtype: stages.Float32},
	"lerobot":     {videos: exportLeRobot},
	"musubi":      {open: func(o *out) writer { return newMusubi(o) }, space: stages.ModelSpace, dtype: stages.BFloat16},
	"safetensors": {open: func(o *out) writer { return &plain{o} }},
	"webdataset":  {open: func(o *out) writer { return &webDataset{out: o} }, dtype: stages.Float32},
}

// Formats returns the sorted names of the formats.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// Run exports an output to a new directory. It writes to DIR.partial, and renames it to DIR when it is complete. It returns an error
// if the table has another number of rows than the summary of the output.
func Run(ctx context.Context, s store.Store, dir string, opts Options) (done Done, err error) {
	to, known := formats[opts.To]
	if !known {
		return done, fault.Usage(fmt.Errorf("export --to %s: give one of %s", opts.To, strings.Join(Formats(), ", ")))
	}
	if to.videos != nil && (opts.Text != nil || opts.VAE != nil) {
		return done, fault.Usage(fmt.Errorf("export --to %s: it has videos; --text and --vae are for formats that have latents", opts.To))
	}
	summary, err := report.ReadSummary(ctx, s, "summary.json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}
	if summary.State != report.Complete {
		return done, fault.Usage(fmt.Errorf("export %s: the output is not finished (no summary.json with state %q); run its job "+
			"to the end first", s.URL(), report.Complete))
	}
	for _, path := range []string{dir, dir + ".partial"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return done, fault.Usage(fmt.Errorf("export to %s: it is there already; give a new place, or remove it", path))
		}
	}
	if !opts.Watermarked {
		if err := refuseWatermarks(ctx, s); err != nil {
			return done, err
		}
	}
	o := &out{dir: dir + ".partial", vae: opts.VAE, fix: textFix(summary, opts.Text != nil)}
	o.done.Fix = o.fix
	if o.final, err = filepath.Abs(dir); err != nil {
		return done, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return done, err
	}
	var rows int64
	if to.videos != nil {
		rows, err = to.videos(ctx, s, o, opts.Where)
	} else {
		rows, err = o.latents(ctx, s, opts, to)
	}
	if err == nil && rows != summary.Totals.Done {
		err = fault.Fatal(fmt.Errorf("export %s: %d rows were written and the job has done %d: latentbeam verify says what is "+
			"missing", s.URL(), rows, summary.Totals.Done))
	}
	if err != nil {
		return o.done, errors.Join(err, os.RemoveAll(o.dir)) // this call has created it
	}
	return o.done, os.Rename(o.dir, dir)
}

// latents writes the latents and texts of the chosen rows. It returns the number of rows in the table of latents.
func (o *out) latents(ctx context.Context, s store.Store, opts Options, to format) (rows int64, err error) {
	w, sheet := to.open(o), factSheet{Schema: 1, Format: opts.To}
	rows, err = eachSample(ctx, s, opts, func(row *sample, captions int) error {
		o.done.Rows++
		if row.text == nil {
			o.done.NoText++
		}
		if err := sheet.add(o, row, to); err != nil {
			return err
		}
		err := w.add(row)
		if errors.Is(err, fs.ErrExist) {
			err = fault.Usage(fmt.Errorf("export %s: another row has files of the same name; give them other ids: %w", row.src, err))
		}
		return err
	})
	if closeErr := w.close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = sheet.write(o)
	}
	return rows, err
}

// eachSample calls yield for the chosen rows of the table of latents, in its order, with their tensors. It calls yield once for each
// caption of a row; captions count from 0. It returns the number of rows in the table.
func eachSample(ctx context.Context, s store.Store, opts Options, yield func(row *sample, caption int) error) (rows int64, err error) {
	files, err := tables.Files(ctx, s, "latents")
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fault.Usage(fmt.Errorf("export %s: it has no table of latents; write: [latents] in the job makes one", s.URL()))
	}
	texts := &texts{places: map[string][]textPlace{}}
	defer texts.close()
	if opts.Text != nil {
		texts.given = true
		if err := texts.open(ctx, opts.Text); err != nil {
			return 0, err
		}
	}
	for _, name := range files {
		n, err := eachSampleOf(ctx, s, name, opts.Where, texts, yield)
		if rows += n; err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// eachSampleOf is eachSample for one file of the table.
func eachSampleOf(ctx context.Context, s store.Store, name string, filter *where.Filter, texts *texts, yield func(*sample, int) error) (at int64, err error) {
	path := store.Address(s.URL(), name)
	var chosen []bool
	if filter != nil {
		if chosen, err = filter.Rows(ctx, s, name); err != nil {
			return 0, err
		}
	}
	file, err := s.Open(ctx, name)
	if err != nil {
		return 0, err
	}
	tensors, err := typed.OpenTensors(path, file)
	if err != nil {
		return 0, err
	}
	defer tensors.Close()
	metadata, err := typed.Metadata(path, file)
	if err != nil {
		return 0, err
	}
	vae, err := statisticsOf(path, metadata)
	if err != nil {
		return 0, err
	}
	facts := factsOf(metadata)
	cuts, stop := iter.Pull2(typed.RowsOf[cutRow](path, file))
	defer stop()
	for row, err := range typed.RowsOf[schemas.LatentRow](path, file) {
		if err == nil {
			err = ctx.Err()
		}
		cut, cutErr, _ := cuts()
		if err = cmp.Or(err, cutErr); err != nil {
			return at, err
		}
		if chosen != nil && !chosen[at] {
			at++
			continue
		}
		one := sample{row: row, cut: cut, vae: vae, facts: facts, src: fmt.Sprintf("%s: row %d (%s)", path, at+1, row.ID)}
		if err := one.readLatent(tensors, at); err != nil {
			return at, err
		}
		if err := one.captions(tensors, at, texts, yield); err != nil {
			return at, err
		}
		at++
	}
	return at, nil
}

// readLatent reads the latent of the row and converts it to float32.
func (s *sample) readLatent(tensors *typed.Tensors, at int64) (err error) {
	r := &s.row
	s.half = r.VAELatentDType == stages.BFloat16
	if !s.half && r.VAELatentDType != stages.Float32 || len(r.VAELatentShape) != 4 {
		return fault.Usage(fmt.Errorf("export %s: latents of %s %v; only float32 and bfloat16 (C, T, H, W) can be exported", s.src,
			r.VAELatentDType, r.VAELatentShape))
	}
	if r.VAELatentBytes, err = tensors.Read("vae_latent_bytes", at); err != nil {
		return err
	}
	if s.half {
		r.VAELatentBytes = schemas.WidenBF16(r.VAELatentBytes)
	}
	if n := elements(r.VAELatentShape); int64(len(r.VAELatentBytes)) != 4*n {
		return fault.Usage(fmt.Errorf("export %s: the latent has %d values, its shape needs %d", s.src, len(r.VAELatentBytes)/4, n))
	}
	return nil
}

// captions calls yield for each text of the row: the text in its own columns, or the texts of another output that match its
// id.
func (s *sample) captions(tensors *typed.Tensors, at int64, texts *texts, yield func(*sample, int) error) (err error) {
	if !texts.given {
		if len(s.row.TextEmbeddingShape) == 2 {
			s.len = s.row.TextEmbeddingShape
			if s.text, err = tensors.Read("text_embedding_bytes", at); err != nil {
				return err
			}
		}
		return yield(s, 0)
	}
	found := texts.find(s.row.ID)
	if len(found) == 0 {
		return yield(s, 0)
	}
	id := s.row.ID
	for i, p := range found {
		if len(found) > 1 {
			s.row.ID = captionID(id, i)
		}
		s.row.Caption, s.len = p.caption, p.shape
		if s.text, err = texts.files[p.file].Read("text_embedding_bytes", p.row); err != nil {
			return err
		}
		if err := yield(s, i); err != nil {
			return err
		}
	}
	return nil
}

// captionID returns the id of a clip for caption number i, if the clip has several captions.
func captionID(id string, i int) string { return fmt.Sprintf("%s#c%d", id, i) }

// elements returns the number of elements of a shape.
func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// texts finds text embeddings of another output by id.
type texts struct {
	given  bool // the export uses another output's texts
	files  []*typed.Tensors
	places map[string][]textPlace // by id
	empty  []textPlace            // first text without words, for clips without a caption
}

// textPlace is the location of a text embedding in the files of texts.
type textPlace struct {
	file    int
	row     int64
	shape   []int64
	caption string
}

// clipEnds matches the suffixes that the ids of clips have after the id of their source.
var clipEnds = regexp.MustCompile(`(#w[0-9]{3,})?(#flip)?$`)

// find returns the texts for the id of a clip, or else for the id of its source. A clip without a caption gets the text
// without words.
func (t *texts) find(id string) []textPlace {
	if found := t.places[id]; found != nil {
		return found
	}
	if strings.HasSuffix(id, schemas.NullMark) {
		return t.empty
	}
	return t.places[clipEnds.ReplaceAllString(id, "")]
}

// open reads the table of embeddings of an output.
func (t *texts) open(ctx context.Context, s store.Store) error {
	names, err := tables.Files(ctx, s, "embeddings")
	if err == nil && len(names) == 0 {
		err = fault.Usage(fmt.Errorf("export: %s has no table of embeddings; write: [embeddings] in its job makes one", s.URL()))
	}
	for _, name := range names {
		if err != nil {
			return err
		}
		err = t.add(ctx, s, name)
	}
	return err
}

// add adds a file of the table of embeddings.
func (t *texts) add(ctx context.Context, s store.Store, name string) error {
	path := store.Address(s.URL(), name)
	file, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	tensors, err := typed.OpenTensors(path, file)
	if err != nil {
		return err
	}
	t.files = append(t.files, tensors)
	row := int64(0)
	for e, err := range typed.RowsOf[schemas.EmbeddingRow](path, file) {
		if err != nil {
			return err
		}
		if e.TextEmbeddingDType == stages.Float32 && len(e.TextEmbeddingShape) == 2 {
			p := textPlace{len(t.files) - 1, row, e.TextEmbeddingShape, e.Caption}
			t.places[e.ID] = append(t.places[e.ID], p)
			if e.Caption == "" && t.empty == nil {
				t.empty = []textPlace{p}
			}
		}
		row++
	}
	return nil
}

func (t *texts) close() {
	for _, f := range t.files {
		_ = f.Close() // the file was only read
	}
}
