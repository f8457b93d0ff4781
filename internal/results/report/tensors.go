package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"maps"
	"reflect"
	"slices"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/source"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// A file of a tensor table has about tensorFileBytes, so that a changed row rewrites only one such file and
// not the whole table.
const (
	tensorFileBytes = 256 << 20
	tensorFileRows  = 65_536
)

// digestKey is the metadata key for the digest of a file's rows. By the digest a later run finds out,
// without reading the tensors, that a file is still correct.
const digestKey = "latentbeam.rows_sha256"

// tensorWriter holds what all tables with tensors have in common.
type tensorWriter struct {
	place       place
	facts       Facts
	rowsPerFile int               // maximal rows of a file; 0: only the limits of the table
	metadata    map[string]string // metadata of the files
	half        bool              // latents are bfloat16 values and are stored as bfloat16
	// selected returns the numbers of the selected rows. It is valid when all rows were learned; nil: the job selects no rows.
	selected func() map[int]bool
}

// tensorTable is a table with tensors. learn must be called for each row before they are written.
type tensorTable interface {
	learn(o *outcome, row []byte) error
	write(ctx context.Context, rows iter.Seq2[outcome, error]) error
	writeFull(ctx context.Context, rows iter.Seq2[outcome, error]) error // only full files, while the job runs
}

// tableOf is a table with rows of type T.
type tableOf[T schemas.Row] struct {
	*tensorWriter
	name string
	row  func(o outcome) (T, error)
	size func(r schemas.Result) int // size of the row's tensors in bytes

	perFile int
	rows    int
	hash    hash.Hash // digest of the current file
	digests []string  // digests of the files before it
	starts  []int     // number of the first row of each file
	columns Columns   // carried columns and readings
}

// learn adds a row to the digest of the current file. The digest does not need the tensors, because the key determines them.
func (t *tableOf[T]) learn(o *outcome, row []byte) error {
	if t.rows == 0 {
		if err := o.parse(); err != nil {
			return err
		}
		t.columns = ColumnsOf[T]()
		if t.selected != nil {
			t.columns.addFlag(selectedColumn)
		}
		t.perFile = atMost(t.rowsPerFile, min(tensorFileRows, tensorFileBytes/max(1, t.size(o.result))))
	}
	if t.rows%t.perFile == 0 {
		t.close()
		t.starts = append(t.starts, o.at)
		t.hash = sha256.New()
		t.hash.Write(appendValue(nil, reflect.ValueOf(t.facts)))
	}
	t.hash.Write(row)
	t.hash.Write(o.record.Row)
	t.rows++
	return t.columns.Learn(o.Row.Extra, o.result.Readings)
}

// close completes the digest of the current file.
func (t *tableOf[T]) close() {
	if t.hash != nil {
		t.digests = append(t.digests, hex.EncodeToString(t.hash.Sum(nil)))
		t.hash = nil
	}
}

// write writes the files whose rows have changed.
func (t *tableOf[T]) write(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	t.close()
	t.digests = t.fileDigests(ctx)
	files, err := splitFiles(only(ledger.Done, rows), max(1, t.perFile), func(i int, rows iter.Seq2[outcome, error]) error {
		name := t.place.table(t.name, i)
		if i < len(t.digests) && t.place.tensors.IsFlushed(ctx, name, digestKey, t.digests[i]) {
			t.place.output.Witness.Retain(name)
			return drain(rows)
		}
		return t.writeFile(ctx, i, rows)
	})
	if err == nil {
		err = t.place.removeFrom(ctx, t.name, files)
	}
	if err != nil {
		return fmt.Errorf("write %s table: %w", t.name, err)
	}
	return nil
}

// writeFull writes the full files that do not exist. It does not replace files of an earlier run, because they may hold
// the only copy of tensors; the final write replaces them. It writes nothing if there are files in the place of earlier releases.
func (t *tableOf[T]) writeFull(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	if t.rows == 0 || t.rows < t.perFile {
		return nil
	}
	names, err := tables.All(ctx, t.place.output.Store, t.name)
	if err != nil || slices.ContainsFunc(names, tables.InOldPlace) {
		return err
	}
	if t.rows%t.perFile == 0 {
		t.close()
	}
	t.digests = t.fileDigests(ctx)
	full := t.rows / t.perFile
	_, err = splitFiles(firstOf(full*t.perFile, only(ledger.Done, rows)), t.perFile, func(i int, rows iter.Seq2[outcome, error]) error {
		name := t.place.table(t.name, i)
		_, err := t.place.output.Store.Stat(ctx, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, drain(rows))
		}
		return t.writeFile(ctx, i, rows)
	})
	return err
}

// fileDigests returns the digests of the files, which cover the rows, the added columns and the selection. Tables of earlier
// releases have no added columns and digests without them. They are not rewritten while none of their rows has changed.
func (t *tableOf[T]) fileDigests(ctx context.Context) []string {
	if len(t.columns.List()) == 0 {
		return t.digests
	}
	earlier := t.selected == nil
	chosen := t.selectedByFile()
	var all []string
	for i, d := range t.digests {
		earlier = earlier && t.place.tensors.IsFlushed(ctx, t.place.table(t.name, i), digestKey, d)
		text := fmt.Appendf(nil, "%s %v", d, t.columns.List())
		if t.selected != nil {
			text = fmt.Appendf(text, " %v", chosen[i])
		}
		sum := sha256.Sum256(text)
		all = append(all, hex.EncodeToString(sum[:]))
	}
	if earlier {
		return t.digests
	}
	return all
}

// selectedByFile returns the selected rows of each file, counted from the first row of the file.
func (t *tableOf[T]) selectedByFile() map[int][]int {
	if t.selected == nil {
		return nil
	}
	all := map[int][]int{}
	for _, at := range slices.Sorted(maps.Keys(t.selected())) {
		i, first := slices.BinarySearch(t.starts, at)
		if !first {
			i--
		}
		if i >= 0 {
			all[i] = append(all[i], at-t.starts[i])
		}
	}
	return all
}

// writeFile writes file number i.
func (t *tableOf[T]) writeFile(ctx context.Context, i int, rows iter.Seq2[outcome, error]) error {
	name := t.place.table(t.name, i)
	o := t.facts.options()
	metadata := map[string]string{}
	maps.Copy(metadata, o.Metadata)
	maps.Copy(metadata, t.metadata)
	if i < len(t.digests) {
		metadata[digestKey] = t.digests[i]
	}
	o.Metadata = metadata
	return t.place.tensors.Flush(ctx, name, func(w io.Writer, wrote func(schemas.Key)) error {
		row := func(o outcome) (T, error) {
			wrote(o.Key)
			return t.row(o)
		}
		return writeRows(w, rows, row, &t.columns, o)
	})
}

// drain reads the rows and ignores them.
func drain(rows iter.Seq2[outcome, error]) error {
	for _, err := range rows {
		if err != nil {
			return err
		}
	}
	return nil
}

// embeddingRow returns the row of the embeddings table.
func (t *tensorWriter) embeddingRow(ctx context.Context, o outcome) (schemas.EmbeddingRow, error) {
	r := schemas.NewEmbeddingRow(o.Given)
	r.SampleIndex = int64(o.Row.SampleIndex)
	if o.result.Prompt != "" { // the seed was derived from the original prompt, so the table needs it
		r.Caption, r.Seed = o.result.Prompt, o.Row.Seed
	}
	// The embedding depends on these values, so a later job cannot set them.
	r.NegativePrompt, r.MaxSequenceLength = o.Row.NegativePrompt, int64(o.Row.MaxSequenceLength)
	if o.Given.Resolution != "" || o.Given.AspectRatio != "" { // the table has no columns for names of sizes
		r.Height, r.Width = int64(o.Row.Height), int64(o.Row.Width)
	}
	r.Key = o.Key.String()
	r.TextEmbeddingDType = "float32"
	r.TextEmbeddingShape = int64s(o.result.TextShape)
	r.NegativeEmbeddingShape = int64s(o.result.NegativeTextShape)
	if len(o.result.TextShape) > 0 {
		r.TextLength = int64(o.result.TextShape[0])
	}
	r.TextEmbeddingSHA256 = o.result.TextSHA256
	r.Model, r.WeightsDigest, r.Class, r.LatentbeamVersion = t.facts.Model, t.facts.Weights, t.facts.Class, t.facts.Version
	var err error
	r.TextEmbeddingBytes, err = t.tensor(ctx, o, schemas.BlobText)
	if err == nil && len(o.result.NegativeTextShape) > 0 {
		r.NegativeEmbeddingBytes, err = t.tensor(ctx, o, schemas.BlobNegativeText)
	}
	if err == nil && len(o.result.LaterTexts) > 0 {
		for _, later := range o.result.LaterTexts {
			r.LaterEmbeddingClips = append(r.LaterEmbeddingClips, int64(later.Clip))
			r.LaterEmbeddingLengths = append(r.LaterEmbeddingLengths, int64(later.Tokens))
		}
		r.LaterEmbeddingBytes, err = t.tensor(ctx, o, schemas.BlobLaterText)
	}
	return r, err
}

// latentRow returns the row of the latents table.
func (t *tensorWriter) latentRow(ctx context.Context, o outcome) (schemas.LatentRow, error) {
	p := &o.Row
	r := schemas.LatentRow{
		ID: p.ID, Key: o.Key.String(), Caption: o.caption(), NegativePrompt: p.NegativePrompt, MediaType: "video",
		Width: int64(p.Width), Height: int64(p.Height), VideoFrames: int64(p.NumFrames), FPS: p.FPS,
		Seed: *p.Seed, SampleIndex: int64(p.SampleIndex),
		NumInferenceSteps: int64(p.NumInferenceSteps), GuidanceScale: p.Guidance(),
		MaxSequenceLength: int64(p.MaxSequenceLength),
		VAELatentDType:    stages.Float32, VAELatentShape: int64s(o.result.LatentsShape),
		VAELatentSHA256: o.result.LatentsSHA256, LatentScale: o.result.LatentScale, LatentSpace: o.result.LatentSpace, Extra: p.Extra,
		Loop:  int64(max(1, p.Loop)),
		Model: t.facts.Model, WeightsDigest: t.facts.Weights, Class: t.facts.Class, LatentbeamVersion: t.facts.Version,
	}
	if p.NumFrames == 1 {
		r.MediaType = "image"
	}
	if p.FPS > 0 {
		r.DurationSec = float64(p.NumFrames) / p.FPS
	}
	if p.Loop > 1 {
		r.ConditionFrameLength = int64(p.ConditionFrameLength)
		if v := o.result.Video; v != nil && v.NumFrames > 0 && p.FPS > 0 {
			r.DurationSec = float64(v.NumFrames) / p.FPS
		}
	}
	if len(o.result.LatentsShape) == 4 {
		r.NumFrames = int64(o.result.LatentsShape[1]) // latent frames, as FastVideo counts them
	}
	r.FileName = source.Shown(p.Media)
	if o.result.Video != nil {
		r.FileName = o.result.Video.Path
	}
	var err error
	if p.Media != "" && len(o.result.TextShape) > 0 { // trainers read latents and texts from one table
		r.TextEmbeddingDType, r.TextEmbeddingShape = "float32", int64s(o.result.TextShape)
		if r.TextEmbeddingBytes, err = t.tensor(ctx, o, schemas.BlobText); err != nil {
			return r, err
		}
	}
	r.VAELatentBytes, err = t.tensor(ctx, o, schemas.BlobLatents)
	if t.half {
		r.VAELatentDType, r.VAELatentBytes = stages.BFloat16, schemas.NarrowBF16(r.VAELatentBytes)
	}
	return r, err
}

// embeddings returns the table of text embeddings.
func (t *tensorWriter) embeddings(ctx context.Context) tensorTable {
	return &tableOf[schemas.EmbeddingRow]{tensorWriter: t, name: "embeddings",
		row: func(o outcome) (schemas.EmbeddingRow, error) { return t.embeddingRow(ctx, o) },
		size: func(r schemas.Result) int {
			return 4 * (product(r.TextShape) + product(r.NegativeTextShape) + product(r.LaterShape()))
		}}
}

// latents returns the table of latents. clips says that rows are cut from their media.
func (t *tensorWriter) latents(ctx context.Context, clips bool) tensorTable {
	size := func(r schemas.Result) int { return 4 * product(r.LatentsShape) }
	if !clips {
		return &tableOf[schemas.LatentRow]{tensorWriter: t, name: "latents", size: size,
			row: func(o outcome) (schemas.LatentRow, error) { return t.latentRow(ctx, o) }}
	}
	return &tableOf[schemas.ClipLatentRow]{tensorWriter: t, name: "latents", size: size,
		row: func(o outcome) (schemas.ClipLatentRow, error) {
			r, err := t.latentRow(ctx, o)
			return schemas.NewClipLatentRow(r, o.Row), err
		}}
}

// tensor reads a tensor of a row.
func (t *tensorWriter) tensor(ctx context.Context, o outcome, name string) ([]byte, error) {
	return t.place.tensors.Get(ctx, o.cursor, o.record, o.result, name)
}

func int64s(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
