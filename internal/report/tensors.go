package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"iter"

	"latentbeam/schemas"
	"latentbeam/transforms/table"
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

// tensorTable is a table with tensors in it.
type tensorTable[T schemas.Row] struct {
	name string
	// row builds a row; without tensors it leaves the blob columns empty.
	row func(o outcome, tensors bool) (T, error)
	// bytes is the size of the row's tensors.
	bytes func(r schemas.Result) int
}

// embeddings writes the table of text embeddings.
func (j *Job) embeddings(ctx context.Context) error {
	return writeTensors(ctx, j, tensorTable[schemas.EmbeddingRow]{"embeddings", j.embeddingRow,
		func(r schemas.Result) int { return 4 * (product(r.TextShape) + product(r.NegativeTextShape)) }})
}

// latents writes the table of VAE latents.
func (j *Job) latents(ctx context.Context) error {
	return writeTensors(ctx, j, tensorTable[schemas.LatentRow]{"latents", j.latentRow,
		func(r schemas.Result) int { return 4 * product(r.LatentsShape) }})
}

// writeTensors writes the files of t whose rows are not those that are already there.
func writeTensors[T schemas.Row](ctx context.Context, j *Job, t tensorTable[T]) error {
	digests, perFile, err := digestFiles(j.done(ctx), t)
	if err != nil {
		return fmt.Errorf("write %s table: %w", t.name, err)
	}
	files, err := inFiles(j.done(ctx), perFile, func(i int, rows iter.Seq2[outcome, error]) error {
		name := j.tableName(t.name, i)
		if i < len(digests) && j.hasDigest(name, digests[i]) {
			return drain(rows)
		}
		return j.Store.Replace(ctx, name, func(w io.Writer) error {
			full := convert(rows, func(o outcome) (T, error) { return t.row(o, true) })
			var metadata map[string]string
			if i < len(digests) {
				metadata = map[string]string{digestKey: digests[i]}
			}
			return writeTable(w, full, table.WriteOptions{Version: j.Version, Metadata: metadata})
		})
	})
	if err == nil {
		err = j.removeFrom(t.name, files)
	}
	if err != nil {
		return fmt.Errorf("write %s table: %w", t.name, err)
	}
	return nil
}

// digestFiles hashes the rows of every file that the table will have, tensors aside: those follow from
// the keys.
func digestFiles[T schemas.Row](rows iter.Seq2[outcome, error], t tensorTable[T]) (digests []string, perFile int, err error) {
	perFile = tensorFileRows
	var h hash.Hash
	n := 0
	for o, err := range rows {
		if err != nil {
			return nil, 0, err
		}
		if n == 0 {
			perFile = max(1, min(tensorFileRows, tensorFileBytes/max(1, t.bytes(o.result))))
		}
		if n%perFile == 0 {
			if h != nil {
				digests = append(digests, hex.EncodeToString(h.Sum(nil)))
			}
			h = sha256.New()
		}
		row, err := t.row(o, false)
		if err != nil {
			return nil, 0, err
		}
		if err := json.NewEncoder(h).Encode(row); err != nil {
			return nil, 0, err
		}
		n++
	}
	if h != nil {
		digests = append(digests, hex.EncodeToString(h.Sum(nil)))
	}
	return digests, perFile, nil
}

// hasDigest reports whether the file exists and holds the rows of that digest.
func (j *Job) hasDigest(name, digest string) bool {
	f, err := j.Store.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	metadata, err := table.Metadata(f, f.Size())
	return err == nil && metadata[digestKey] == digest
}

func drain(rows iter.Seq2[outcome, error]) error {
	for _, err := range rows {
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) embeddingRow(o outcome, tensors bool) (schemas.EmbeddingRow, error) {
	r := schemas.NewEmbeddingRow(o.Given)
	r.SampleIndex = int64(o.Row.SampleIndex)
	r.Key = o.Key.String()
	r.TextEmbeddingDType = "float32"
	r.TextEmbeddingShape, r.NegativeEmbeddingShape = int64s(o.result.TextShape), int64s(o.result.NegativeTextShape)
	if len(o.result.TextShape) > 0 {
		r.TextLength = int64(o.result.TextShape[0])
	}
	r.TextEmbeddingSHA256 = o.result.TextSHA256
	r.Model, r.WeightsDigest, r.Class, r.LatentbeamVersion = j.Model, j.Weights, j.Class, j.Version
	if !tensors {
		return r, nil
	}
	var err error
	if r.TextEmbeddingBytes, err = j.blob(o, schemas.BlobText); err == nil && len(o.result.NegativeTextShape) > 0 {
		r.NegativeEmbeddingBytes, err = j.blob(o, schemas.BlobNegativeText)
	}
	return r, err
}

func (j *Job) latentRow(o outcome, tensors bool) (schemas.LatentRow, error) {
	p := &o.Row
	r := schemas.LatentRow{
		ID: p.ID, Key: o.Key.String(), Caption: p.Prompt, NegativePrompt: p.NegativePrompt, MediaType: "video",
		Width: int64(p.Width), Height: int64(p.Height), VideoFrames: int64(p.NumFrames), FPS: p.FPS,
		DurationSec: float64(p.NumFrames) / p.FPS, Seed: *p.Seed, SampleIndex: int64(p.SampleIndex),
		NumInferenceSteps: int64(p.NumInferenceSteps), GuidanceScale: p.Guidance(),
		MaxSequenceLength: int64(p.MaxSequenceLength),
		VAELatentDType:    "float32", VAELatentShape: int64s(o.result.LatentsShape), VAELatentSHA256: o.result.LatentsSHA256,
		LatentScale: o.result.LatentScale, Extra: p.Extra,
		Model: j.Model, WeightsDigest: j.Weights, Class: j.Class, LatentbeamVersion: j.Version,
	}
	if p.NumFrames == 1 {
		r.MediaType = "image"
	}
	if len(o.result.LatentsShape) == 4 {
		r.NumFrames = int64(o.result.LatentsShape[1]) // latent frames, as FastVideo counts them
	}
	if o.result.Video != nil {
		r.FileName = o.result.Video.Path
	}
	var err error
	if tensors {
		r.VAELatentBytes, err = j.blob(o, schemas.BlobLatents)
	}
	return r, err
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
