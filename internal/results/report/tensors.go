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

// Files of tensor tables hold about tensorFileBytes, so that one changed row rewrites one such file and
// not the whole table.
const (
	tensorFileBytes = 256 << 20
	tensorFileRows  = 65_536
)

// digestKey is the metadata of a tensor table's file that names its rows. It lets a later run see,
// without reading the tensors, that a file is still right.
const digestKey = "latentbeam.rows_sha256"

// tensorWriter is what the tables with tensors have in common.
type tensorWriter struct {
	place       place
	facts       Facts
	rowsPerFile int               // at most; 0: the bounds of the table alone
	metadata    map[string]string // of the files
	half        bool              // latents are values of bfloat16 and stand so in their table
	// selected returns the numbers of the rows that the job selects, once all rows were learned; nil: it selects none.
	selected func() map[int]bool
}

// tensorTable is a table with tensors in it. It learns its rows one by one before they are written.
type tensorTable interface {
	learn(o *outcome, row []byte) error
	write(ctx context.Context, rows iter.Seq2[outcome, error]) error
	gain(ctx context.Context, rows iter.Seq2[outcome, error]) error // what is complete, while the job runs
}

// tableOf is a table of T.
type tableOf[T schemas.Row] struct {
	*tensorWriter
	name string
	row  func(o outcome) (T, error)
	size func(r schemas.Result) int // of the row's tensors, in bytes

	perFile int
	rows    int
	hash    hash.Hash // of the file at hand
	digests []string  // of the files before it
	begins  []int     // numbers of the first rows of the files
	columns Columns   // what the rows carry, and readings
}

// learn hashes a row of the file at hand, tensors aside: those follow from the key.
func (t *tableOf[T]) learn(o *outcome, row []byte) error {
	if t.rows == 0 {
		if err := o.parse(); err != nil {
			return err
		}
		t.columns = ColumnsOf[T]()
		if t.selected != nil {
			t.columns.mark(selectedColumn)
		}
		t.perFile = atMost(t.rowsPerFile, min(tensorFileRows, tensorFileBytes/max(1, t.size(o.result))))
	}
	if t.rows%t.perFile == 0 {
		t.close()
		t.begins = append(t.begins, o.at)
		t.hash = sha256.New()
		t.hash.Write(appendValue(nil, reflect.ValueOf(t.facts)))
	}
	t.hash.Write(row)
	t.hash.Write(o.record.Row)
	t.rows++
	return t.columns.See(o.Row.Extra, o.result.Readings)
}

// close ends the file at hand.
func (t *tableOf[T]) close() {
	if t.hash != nil {
		t.digests = append(t.digests, hex.EncodeToString(t.hash.Sum(nil)))
		t.hash = nil
	}
}

// write writes the files whose rows are not those that are already there.
func (t *tableOf[T]) write(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	t.close()
	t.digests = t.wanted(ctx)
	files, err := inFiles(only(ledger.Done, rows), max(1, t.perFile), func(i int, rows iter.Seq2[outcome, error]) error {
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

// gain writes the files that are full and not there. Those that are there, of an earlier run, stay until the end, for
// they may hold tensors that nothing else has; where earlier releases wrote them, the end writes all.
func (t *tableOf[T]) gain(ctx context.Context, rows iter.Seq2[outcome, error]) error {
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
	t.digests = t.wanted(ctx)
	full := t.rows / t.perFile
	_, err = inFiles(first(only(ledger.Done, rows), full*t.perFile), t.perFile, func(i int, rows iter.Seq2[outcome, error]) error {
		name := t.place.table(t.name, i)
		_, err := t.place.output.Store.Stat(ctx, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, drain(rows))
		}
		return t.writeFile(ctx, i, rows)
	})
	return err
}

// wanted are the digests that the files are to have: the columns that the input adds join those of the rows. Tables of
// earlier releases have no such columns and stay as they are, as long as none of their rows change.
func (t *tableOf[T]) wanted(ctx context.Context) []string {
	if len(t.columns.List()) == 0 {
		return t.digests
	}
	earlier := t.selected == nil
	chosen := t.chosen()
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

// chosen are the rows of each file that are selected, counted from the first row of the file.
func (t *tableOf[T]) chosen() map[int][]int {
	if t.selected == nil {
		return nil
	}
	all := map[int][]int{}
	for _, at := range slices.Sorted(maps.Keys(t.selected())) {
		i, first := slices.BinarySearch(t.begins, at)
		if !first {
			i--
		}
		if i >= 0 {
			all[i] = append(all[i], at-t.begins[i])
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

func drain(rows iter.Seq2[outcome, error]) error {
	for _, err := range rows {
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tensorWriter) embeddingRow(ctx context.Context, o outcome) (schemas.EmbeddingRow, error) {
	r := schemas.NewEmbeddingRow(o.Given)
	r.SampleIndex = int64(o.Row.SampleIndex)
	if o.result.Prompt != "" { // a derived seed comes from the original prompt
		r.Caption, r.Seed = o.result.Prompt, o.Row.Seed
	}
	// The text depends on these, so a later job cannot decide them.
	r.NegativePrompt, r.MaxSequenceLength = o.Row.NegativePrompt, int64(o.Row.MaxSequenceLength)
	if o.Given.Resolution != "" || o.Given.AspectRatio != "" { // the table has no names of sizes
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
	if p.Media != "" && len(o.result.TextShape) > 0 { // trainers read both from one table
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

// embeddings is the table of texts.
func (t *tensorWriter) embeddings(ctx context.Context) tensorTable {
	return &tableOf[schemas.EmbeddingRow]{tensorWriter: t, name: "embeddings",
		row: func(o outcome) (schemas.EmbeddingRow, error) { return t.embeddingRow(ctx, o) },
		size: func(r schemas.Result) int {
			return 4 * (product(r.TextShape) + product(r.NegativeTextShape) + product(r.LaterShape()))
		}}
}

// latents is the table of latents; clips says that rows are cut from their media.
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

// first yields the first n rows.
func first(rows iter.Seq2[outcome, error], n int) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		k := 0
		for o, err := range rows {
			if k == n || !yield(o, err) {
				return
			}
			if k++; k == n {
				return
			}
		}
	}
}
