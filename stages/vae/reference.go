package vae

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"latentbeam/internal/media"
	"latentbeam/internal/media/marks"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// maxReferenceFrames limits the length of a video that a row is conditioned on.
const maxReferenceFrames = 1 << 14

// Reference returns the stage `encode_reference`: it encodes the images and videos in a row's reference to latents, and leaves
// the element's other data unchanged. They are resized to fill the row's size and cropped; the frame rate of a video does not
// change.
func Reference() stages.Spec {
	return stages.Spec{
		Name: "encode_reference",
		Doc: "autoencoder: a row's reference images and videos to latents that denoise is conditioned on; " +
			"posterior: sample or mean, dtype: fp32, bf16 or fp16",
		Version:  2,
		Readings: []string{schemas.ReadingSourceMarks},
		Params:   []stages.Param{stages.ParamReference, stages.ParamHeight, stages.ParamWidth},
		New:      openReference,
	}
}

func openReference(m *stages.Model, o stages.Options) (stages.Stage, error) {
	s, err := openEncodeStage("encode_reference", "sample", m, o)
	if err != nil {
		return nil, err
	}
	if s.half {
		return nil, stages.Errorf("store", "encode_reference: store is bfloat16: the latents of references are not stored in a table; leave store out")
	}
	return &referenceStage{*s}, nil
}

type referenceStage struct{ encodeStage }

// Capabilities says what the encoder can do beyond Run. It has no LatentShape because its latents are not the row's.
func (s *referenceStage) Capabilities() stages.Capabilities {
	c := s.encodeStage.Capabilities()
	c.LatentShape, c.LatentSpace, c.Cost, c.Spread = nil, nil, nil, nil
	return c
}

// Check returns an error for sizes that the autoencoder cannot encode.
func (s *referenceStage) Check(row *schemas.PromptRow) error {
	if row.Reference == "" {
		return nil
	}
	_, err := s.Config.LatentShape(1, row.Height, row.Width)
	return err
}

// Need returns the memory for a reference that is as long as the row's video.
func (s *referenceStage) Need(row *schemas.PromptRow, n int) (int64, error) {
	if row.Reference == "" {
		return 0, nil
	}
	return s.encodeStage.Need(row, n)
}

// Run encodes the references of the elements one after another. An element whose file cannot be read fails.
func (s *referenceStage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return encodeReferences(ctx, batch, "encode_reference", func(row *schemas.PromptRow) (all []*stages.Array, err error) {
		model, err := s.On(dev)
		if err != nil {
			return nil, err
		}
		for i, path := range strings.Split(row.Reference, ";") {
			z, err := s.reference(ctx, dev, model, row, path, i)
			if err != nil {
				return nil, err
			}
			all = append(all, z)
		}
		return all, nil
	})
}

// encodeReferences sets the elements' reference latents.
func encodeReferences(ctx context.Context, batch []*stages.Element, stage string,
	encode func(row *schemas.PromptRow) ([]*stages.Array, error)) error {
	for _, e := range batch {
		if e.Row.Reference == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		z, err := encode(&e.Row)
		if err := unreadable(ctx, stage, e, err); err != nil {
			return err
		}
		if e.Failed == nil {
			e.References = z
			if err := readSourceMarks(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// readSourceMarks records which marks of synthetic media the references of an element carry.
func readSourceMarks(ctx context.Context, e *stages.Element) error {
	var all []string
	for path := range strings.SplitSeq(e.Row.Reference, ";") {
		file, err := LocalFootage(ctx, path)
		if err != nil {
			return err // the file existed a moment ago
		}
		for _, name := range strings.Split(marks.Names(file.Path), ", ") {
			if name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		file.Release()
	}
	if slices.Sort(all); len(all) > 0 {
		e.Read(map[string]string{schemas.ReadingSourceMarks: strings.Join(all, ", ")})
	}
	return nil
}

// reference returns the latents of the file at path, which is the row's reference number i.
func (s *referenceStage) reference(ctx context.Context, dev kernels.Backend, model *Model, row *schemas.PromptRow,
	path string, i int) (*stages.Array, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	file, err := LocalFootage(ctx, path)
	if err != nil {
		return nil, err
	}
	defer file.Release()
	n, err := countFrames(ctx, file.Path, media.RulesOf(row))
	if err == nil {
		n, err = s.whole(n, row.Height, row.Width)
	}
	if err != nil {
		return nil, &FootageError{Err: fmt.Errorf("reference: %w", err)}
	}
	frames, err := media.OpenFrames(ctx, file.Path, n, 0, row.Height, row.Width, media.RulesOf(row))
	if err != nil {
		return nil, &FootageError{Err: fmt.Errorf("reference: %w", err)}
	}
	defer frames.Close()
	clip := Video{Frames: n, Height: row.Height, Width: row.Width, Pixels: frameByFrame(func(dst []float32, i int) error {
		if err := frames.At(dst, i); err != nil {
			return &FootageError{Err: fmt.Errorf("reference: read %s: %w", path, err)}
		}
		return nil
	})}
	raw, err := model.Encode(dev, clip, s.micro, s.noise(row, 2*uint32(i))) // an autoencoder uses two steps
	if err != nil {
		return nil, err
	}
	return model.ForDenoiser(dev, raw)
}

// whole returns the largest number of frames, at most n, that the autoencoder can encode. Open-Sora 1.3's takes 1 frame and
// then 16 more at a time.
func (s *referenceStage) whole(n, height, width int) (int, error) {
	_, err := s.Config.LatentShape(n, height, width)
	for n > 1 && err != nil {
		n--
		_, err = s.Config.LatentShape(n, height, width)
	}
	return n, err
}

// countFrames returns the number of frames in a file.
func countFrames(ctx context.Context, path string, r media.Rules) (n int, err error) {
	src, err := media.OpenSource(ctx, path, media.SourceOptions{Rules: r})
	if err != nil {
		return 0, err
	}
	defer src.Close()
	info := src.Info()
	if info.Still {
		return 1, nil
	}
	rgb := make([]byte, info.Height*info.Width*3)
	for ; ; n++ {
		switch err := src.Next(rgb); {
		case errors.Is(err, io.EOF) && n > 0:
			return n, nil
		case errors.Is(err, io.EOF):
			return 0, fmt.Errorf("%s holds no frames", path)
		case err != nil:
			return 0, fmt.Errorf("read %s: %w", path, err)
		case n == maxReferenceFrames:
			return 0, fmt.Errorf("%s has more than %d frames", path, maxReferenceFrames)
		}
	}
}
