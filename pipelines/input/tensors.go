package input

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Tensors returns a function that reads the tensors of one row of a job; nil: the rows have no tensors. Paths are relative to
// dir.
func Tensors(cfg *config.Config, dir string) func(*stages.Element) error {
	switch kind, _ := cfg.Input.Source(); kind {
	case config.EmbeddingInput:
		return finder(embeddings{videos: cfg.Defaults.NumVideosPerPrompt}.element, dir)
	case config.LatentInput:
		return finder(latents{}.element, dir)
	}
	return nil
}

// embeddings reads tables of text embeddings.
type embeddings struct {
	files  []string
	videos int // see prompts.videos
	limit  int
}

// Rows yields an element for each embedding. If the row has no number of videos, it yields one element per video that the job
// asks for.
func (s embeddings) Rows(_ context.Context, tensors bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for e, err := range s.rows(tensors) {
			if err != nil || e.Row.NumVideosPerPrompt > 0 {
				if !yield(e, err) || err != nil {
					return
				}
			} else if !samples(e, s.videos, yield) {
				return
			}
		}
	}
}

func (s embeddings) rows(tensors bool) iter.Seq2[*stages.Element, error] {
	named := func(r schemas.EmbeddingRow) bool { return r.TextEmbeddingSHA256 != "" }
	return readRows(s.files, s.limit, tensors, named, s.element)
}

// element returns the element of a row.
func (s embeddings) element(r schemas.EmbeddingRow, tensors bool) (*stages.Element, error) {
	e := &stages.Element{Row: r.PromptRow(), Origin: origin(
		fmt.Sprint(r.Key, r.TextEmbeddingShape, r.TextEmbeddingDType), r.TextEmbeddingSHA256, r.TextEmbeddingBytes)}
	if !tensors {
		return e, nil
	}
	text, err := array(r.TextEmbeddingBytes, r.TextEmbeddingShape, r.TextEmbeddingDType)
	if err != nil {
		return e, err
	}
	var negative *stages.Array
	if len(r.NegativeEmbeddingShape) > 0 {
		negative, err = array(r.NegativeEmbeddingBytes, r.NegativeEmbeddingShape, r.TextEmbeddingDType)
	}
	var later []stages.LaterText
	if err == nil {
		later, err = laterTexts(r, text)
	}
	if err == nil {
		e.Text = &stages.Text{Embedding: text, Negative: negative, Later: later}
	}
	return e, err
}

// laterTexts returns the text embeddings of the clips after the first. All have the width of the first.
func laterTexts(r schemas.EmbeddingRow, first *stages.Array) (out []stages.LaterText, err error) {
	if len(r.LaterEmbeddingClips) == 0 {
		return nil, nil
	}
	if len(r.LaterEmbeddingClips) != len(r.LaterEmbeddingLengths) || len(first.Shape) != 2 {
		return nil, fmt.Errorf("texts of later clips: %d clips and %d lengths beside a text of shape %v",
			len(r.LaterEmbeddingClips), len(r.LaterEmbeddingLengths), first.Shape)
	}
	rest, width := r.LaterEmbeddingBytes, int64(first.Shape[1])
	for i, n := range r.LaterEmbeddingLengths {
		if n < 1 || n > schemas.MaxSequenceLengthCap || 4*n*width > int64(len(rest)) {
			return nil, fmt.Errorf("texts of later clips: number %d has %d tokens, %d bytes are left", i+1, n, len(rest))
		}
		a, err := array(rest[:4*n*width], []int64{n, width}, r.TextEmbeddingDType)
		if err != nil {
			return nil, err
		}
		out = append(out, stages.LaterText{Clip: int(r.LaterEmbeddingClips[i]), Embedding: a})
		rest = rest[4*n*width:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("texts of later clips: %d bytes too many", len(rest))
	}
	return out, nil
}

// latents reads tables of VAE latents.
type latents struct {
	files []string
	limit int
}

// Rows yields a row for each latent.
func (s latents) Rows(_ context.Context, tensors bool) iter.Seq2[*stages.Element, error] {
	named := func(r schemas.LatentRow) bool { return r.VAELatentSHA256 != "" }
	return readRows(s.files, s.limit, tensors, named, s.element)
}

// element returns the element of a row.
func (s latents) element(r schemas.LatentRow, tensors bool) (*stages.Element, error) {
	e := &stages.Element{
		Row: r.PromptRow(), LatentScale: r.LatentScale,
		Origin: origin(fmt.Sprint(r.Key, r.LatentScale, r.VAELatentShape, r.VAELatentDType)+rawMark(r), r.VAELatentSHA256,
			r.VAELatentBytes),
	}
	if e.Row.NumFrames == 0 && len(r.VAELatentShape) == 4 {
		e.Row.NumFrames = int(r.VAELatentShape[1]) // tables of other programs have only the number of latent frames
	}
	if !tensors {
		return e, nil
	}
	z, err := array(r.VAELatentBytes, r.VAELatentShape, r.VAELatentDType)
	switch r.LatentSpace {
	case "", stages.ModelSpace:
		e.Latents = z
	case stages.RawSpace:
		e.RawLatents = z
	default:
		err = fmt.Errorf("latent_space is %q: this version reads raw and model", r.LatentSpace)
	}
	return e, err
}

// rawMark returns the text that is added to the origin of raw latents.
func rawMark(r schemas.LatentRow) string {
	if r.LatentSpace == stages.RawSpace {
		return " raw"
	}
	return ""
}

// finder returns a function that reads the tensors of an element from its table. The element's row names the table, relative to dir,
// and the number of its row.
func finder[T schemas.Row](element func(T, bool) (*stages.Element, error), dir string) func(*stages.Element) error {
	var rows typed.Finder[T] // never closed, because a worker process ends with its job
	return func(e *stages.Element) error {
		at := strings.LastIndex(e.Row.Source, rowMark)
		if at < 0 {
			return fmt.Errorf("the element %s does not say where its tensors are: %q", e.Key, e.Row.Source)
		}
		n, err := strconv.ParseInt(e.Row.Source[at+len(rowMark):], 10, 64)
		if err != nil {
			return fmt.Errorf("the element %s does not say where its tensors are: %w", e.Key, err)
		}
		row, err := rows.Row(config.Absolute(dir, e.Row.Source[:at]), n)
		var bad *typed.RowError
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		if bad != nil {
			e.Unread = bad.Error()
			return nil
		}
		found, err := element(row, true)
		switch {
		case found.Origin != e.Origin:
			return fault.Usage(fmt.Errorf("%s is a different row on this host than where the input was read: give every host the same files",
				e.Row.Source))
		case err != nil:
			e.Unread = err.Error()
		}
		e.Text, e.Latents, e.RawLatents = found.Text, found.Latents, found.RawLatents
		return nil
	}
}

// rowMark separates the file from the row number in Source.
const rowMark = ":row "

// origin returns a digest of the content of a row of tensors: its columns, and the digest of its tensor. If the table does not
// have the tensor's digest, origin computes it.
func origin(about, digest string, tensor []byte) schemas.Key {
	if digest == "" {
		digest = fmt.Sprintf("%x", sha256.Sum256(tensor))
	}
	return sha256.Sum256([]byte("origin " + about + " " + digest))
}

// array converts a tensor column to an array of float32. It reads float32 and bfloat16.
func array(data []byte, shape []int64, dtype string) (*stages.Array, error) {
	switch dtype {
	case stages.Float32:
	case stages.BFloat16:
		data = schemas.WidenBF16(data)
	default:
		return nil, fmt.Errorf("tensor of dtype %q: this version reads float32 and bfloat16", dtype)
	}
	a := &stages.Array{Shape: make([]int, len(shape))}
	for i, d := range shape {
		a.Shape[i] = int(d)
	}
	var err error
	if a.Data, err = schemas.UnpackFloats(data, a.Shape); err != nil {
		return nil, err
	}
	return a, nil
}

// readRows yields the elements of parquet files, at most limit rows; 0: all. It reads the tensors if tensors is true. It also
// reads them if the table has no digests of them (named is false for its first row), because keys need the digests. If a tensor
// cannot be read, the element has none, and its Unread says why.
func readRows[T schemas.Row](files []string, limit int, tensors bool, named func(T) bool,
	element func(r T, tensors bool) (*stages.Element, error)) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		left := limit
		for _, file := range files {
			foreign, err := firstRow(file, func(r T) bool { return !named(r) })
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", file, err))
				return
			}
			n := 0
			for row, err := range typed.Read[T](file, tensors || foreign) {
				var bad *typed.RowError
				if err != nil && !errors.As(err, &bad) {
					yield(nil, fmt.Errorf("read %s: %w", file, err))
					return
				}
				n++
				e, err := element(row, tensors)
				e.Row.Source = fmt.Sprintf("%s%s%d", file, rowMark, n)
				switch {
				case bad != nil && bad.Tensor && !foreign:
					e.Unread = bad.Error() // the row has its key without the tensor
				case bad != nil:
					if e.Row.ID == "" {
						e.Row.ID = e.Row.ContentID()
					}
					e.Fail("read", fault.Row(bad))
				case err != nil:
					e.Unread = err.Error()
				}
				if !yield(e, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
		}
	}
}

// firstRow returns the result of test for the first valid row of a file; false: the file has none.
func firstRow[T schemas.Row](file string, test func(T) bool) (bool, error) {
	for row, err := range typed.Read[T](file, false) {
		var bad *typed.RowError
		if errors.As(err, &bad) {
			continue
		}
		return err == nil && test(row), err
	}
	return false, nil
}
