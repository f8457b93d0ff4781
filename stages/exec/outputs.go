package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"latentbeam/internal/media"
	"latentbeam/internal/system"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/weights/safetensors"
)

// outputPoster is an additional output: an image of a video.
const outputPoster = "poster"

// result processes what the program made of a row. A returned error is the row's.
func (x *exchange) result(e *stages.Element, a answer) error {
	if x.opts.onlyMeasures() {
		for kind := range a.Outputs {
			return fmt.Errorf("an output of kind %.40q; the stage gives readings alone", kind)
		}
		e.AddReadings(x.measure, a.Readings)
		return nil
	}
	if len(a.Readings) > 0 {
		e.Read(a.Readings)
	}
	for kind := range a.Outputs {
		if kind != x.opts.Gives && (kind != outputPoster || x.opts.Gives != string(stages.KindVideo)) {
			return fmt.Errorf("an output of kind %.40q; the stage gives %s", kind, x.opts.Gives)
		}
	}
	path, given := a.Outputs[x.opts.Gives]
	switch {
	case given:
	case x.opts.Takes == x.opts.Gives && len(a.Outputs) == 0:
		return nil // the input passes on unchanged
	default:
		return fmt.Errorf("no output of kind %s", x.opts.Gives)
	}
	path, err := inside(x.dir, path)
	if err != nil {
		return err
	}
	switch stages.Kind(x.opts.Gives) {
	case stages.KindPrompt:
		return readPrompt(e, path)
	case stages.KindMedia:
		return readMedia(e, path)
	case stages.KindText:
		return readText(e, path)
	case stages.KindLatents:
		return readLatents(e, path)
	case stages.KindFrames:
		return readFrames(x.ctx, e, path)
	}
	if err := readVideo(x.ctx, e, path); err != nil {
		return err
	}
	if poster, given := a.Outputs[outputPoster]; given {
		return readPoster(x.ctx, e, x.dir, poster)
	}
	return nil
}

// readPrompt reads a text file. The new prompt is also stored as a reading.
func readPrompt(e *stages.Element, path string) error {
	data, err := system.ReadRegular(path, schemas.MaxPromptBytes)
	if err != nil {
		return fmt.Errorf("the prompt: %w", withoutPath(err, path))
	}
	text := strings.TrimSpace(string(data))
	if text == "" || !utf8.ValidString(text) {
		return errors.New("the prompt is empty or not valid UTF-8")
	}
	e.Row.Prompt = text
	if e.Readings = maps.Clone(e.Readings); e.Readings == nil {
		e.Readings = map[string]string{}
	}
	e.Readings["prompt"] = text
	return nil
}

// readMedia reads a file unchanged. The stage that decodes it checks it.
func readMedia(e *stages.Element, path string) error {
	info, err := os.Stat(path)
	ext := strings.ToLower(filepath.Ext(path))
	switch {
	case err != nil:
		return withoutPath(err, path)
	case ext == "" || info.Size() == 0:
		return fmt.Errorf("the media file %q has %d bytes: an extension and at least a byte are wanted", filepath.Base(path), info.Size())
	}
	data, err := readWhole(path)
	if err != nil {
		return err
	}
	e.Media = &schemas.MediaFile{Data: data, Ext: ext}
	return nil
}

// readWhole reads a result whose size is allowed in memory.
func readWhole(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err, path)
	}
	if err := fits(info.Size()); err != nil {
		return nil, fmt.Errorf("the file %q: %w", filepath.Base(path), err)
	}
	data, err := system.ReadRegular(path, maxMedia)
	if err != nil {
		return nil, withoutPath(err, path)
	}
	return data, nil
}

// fits returns an error if a result of this size must not be in memory; a variable for tests.
var fits = media.Fits

// maxMedia limits the size of a media file. It is in memory until the last stage that takes it has read it.
const maxMedia = 4 << 30

func readText(e *stages.Element, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text := &stages.Text{}
	if text.Embedding, err = arrayOf(f, tensorText, 2); err != nil {
		return err
	}
	width := text.Embedding.Shape[1]
	for _, name := range f.Names() {
		var a *stages.Array
		if a, err = arrayOf(f, name, 2); err == nil && a.Shape[1] != width {
			err = fmt.Errorf("tensor %q is %d wide, the embedding %d", name, a.Shape[1], width)
		}
		if err != nil {
			return err
		}
		number, later := strings.CutPrefix(name, tensorLater)
		switch {
		case name == tensorNegative:
			text.Negative = a
		case later:
			clip, err := strconv.Atoi(number)
			if err != nil || clip < 1 {
				return fmt.Errorf("tensor %q does not name a clip", name)
			}
			text.Later = append(text.Later, stages.LaterText{Clip: clip, Embedding: a})
		}
	}
	slices.SortFunc(text.Later, func(a, b stages.LaterText) int { return a.Clip - b.Clip })
	e.Text = text
	return nil
}

func readLatents(e *stages.Element, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	a, err := arrayOf(f, tensorLatents, 4)
	if err != nil {
		return err
	}
	scale := 0.0 // the scale of the next autoencoder
	if text := f.Metadata()[metaScale]; text != "" {
		if scale, err = strconv.ParseFloat(text, 64); err != nil || !(scale >= 0 && scale < 1e6) {
			return fmt.Errorf("%s is %.40q", metaScale, text)
		}
	}
	e.Latents, e.RawLatents, e.LatentScale = a, nil, scale
	return nil
}

// arrayOf copies a tensor of floats.
func arrayOf(f *safetensors.File, name string, axes int) (*stages.Array, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("the file has no tensor %q; it has %s", name, strings.Join(f.Names(), ", "))
	}
	if len(t.Shape) != axes || slices.Contains(t.Shape, 0) {
		return nil, fmt.Errorf("tensor %q has the shape %v: %d axes are wanted, none empty", name, t.Shape, axes)
	}
	a := stages.NewArray(t.Shape...)
	dt, ok := kernels.DTypes[t.DType]
	if !ok {
		return nil, fmt.Errorf("tensor %q is %s: F32, F16 and BF16 are read", name, t.DType)
	}
	dt.Decode(a.Data, t.Data)
	return a, nil
}

func readFrames(ctx context.Context, e *stages.Element, path string) error {
	if filepath.Ext(path) != ".safetensors" {
		c, err := decode(ctx, e, path, schemas.MaxNumFrames)
		e.Frames = c
		return err
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	t, ok := f.Tensor(tensorFrames)
	if !ok {
		return fmt.Errorf("the file has no tensor %q", tensorFrames)
	}
	s := t.Shape
	if t.DType != "U8" || len(s) != 4 || s[3] != 3 || s[0] < 1 || s[0] > schemas.MaxNumFrames {
		return fmt.Errorf("the frames are %s %v: U8 (frames, height, width, 3) is wanted", t.DType, s)
	}
	if err := checkSize(s[2], s[1]); err != nil {
		return err
	}
	if err := fits(int64(len(t.Data))); err != nil {
		return fmt.Errorf("the frames %v: %w", s, err)
	}
	c := &schemas.Clip{Width: s[2], Height: s[1], FPS: e.Row.FPS}
	if text := f.Metadata()[metaFPS]; text != "" {
		if c.FPS, err = strconv.ParseFloat(text, 64); err != nil || !(c.FPS >= 0 && c.FPS <= schemas.MaxFPS) {
			return fmt.Errorf("%s is %.40q", metaFPS, text)
		}
	}
	for frame := range slices.Chunk(bytes.Clone(t.Data), s[1]*s[2]*3) {
		c.Frames = append(c.Frames, frame)
	}
	e.Frames = c
	return nil
}

func checkSize(width, height int) error {
	if width < 1 || height < 1 || width > schemas.MaxSide || height > schemas.MaxSide {
		return fmt.Errorf("frames of %dx%d: each side must be 1 to %d", width, height, schemas.MaxSide)
	}
	return nil
}

// decode decodes the frames of a y4m or of images; videos are decoded by ffmpeg.
func decode(ctx context.Context, e *stages.Element, path string, most int) (*schemas.Clip, error) {
	src, err := media.OpenSource(ctx, path, media.SourceOptions{Frames: most})
	if err != nil {
		return nil, withoutPath(err, path)
	}
	defer src.Close()
	info := src.Info()
	c := &schemas.Clip{Width: info.Width, Height: info.Height, FPS: e.Row.FPS}
	if info.RateNum > 0 {
		c.FPS = float64(info.RateNum) / float64(info.RateDen)
	}
	for len(c.Frames) < most {
		frame := make([]byte, info.Width*info.Height*3)
		err := src.Next(frame)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, withoutPath(err, path)
		}
		if err := fits(int64(len(c.Frames)+1) * int64(len(frame))); err != nil {
			return nil, fmt.Errorf("frame %d of %dx%d: %w", len(c.Frames), info.Width, info.Height, err)
		}
		c.Frames = append(c.Frames, frame)
	}
	if len(c.Frames) == 0 {
		return nil, errors.New("the file has no frames")
	}
	return c, nil
}

// withoutPath removes the scratch directory from an error, so that failures of two runs are equal.
func withoutPath(err error, path string) error {
	return errors.New(strings.ReplaceAll(err.Error(), path, filepath.Base(path)))
}
