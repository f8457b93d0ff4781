package exec

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"latentbeam/internal/storage/source"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/weights/safetensors"
)

// The names of tensors in files, and of their metadata.
const (
	tensorText     = "embedding"
	tensorNegative = "negative"
	tensorLater    = "later." // followed by the number of the clip
	tensorLatents  = "latents"
	tensorFrames   = "frames"
	metaScale      = "latent_scale"
	metaSpace      = "latent_space" // of latents that a table has in raw form
	metaFPS        = "fps"
)

// localMedia returns local paths for the media files of elements. An element whose file is not available fails and is not in
// the result.
func (s *stage) localMedia(ctx context.Context, batch []*stages.Element) (live []*stages.Element, paths []string,
	release func(), err error) {
	var files []source.Local
	release = func() {
		for _, f := range files {
			f.Release()
		}
	}
	if stages.Kind(s.opts.Takes) != stages.KindMedia {
		return batch, nil, release, nil
	}
	for _, e := range batch {
		if e.Media != nil { // it is written to a file later, in the program's directory
			live, paths = append(live, e), append(paths, "")
			continue
		}
		f, err := source.Media(ctx, e.Row.Media)
		if err != nil && fault.ClassOf(err) != fault.ClassRow {
			return nil, nil, release, err
		}
		if err != nil {
			e.Fail(s.opts.label(), fault.Row(err))
			continue
		}
		files, live, paths = append(files, f), append(live, e), append(paths, f.Path)
	}
	return live, paths, release, nil
}

// row describes element i of the batch for the program, and writes its input to a file.
func (x *exchange) row(i int, e *stages.Element) (row, error) {
	r := row{ID: e.Row.ID, Key: e.Key.String(), Params: map[string]any{}, Inputs: map[string]string{}}
	for _, p := range x.opts.Params {
		if v, given := value(&e.Row, param(p)); given {
			r.Params[p] = v
			if p == string(stages.ParamSeed) {
				seed := v.(int64)
				r.Seed = &seed
			}
		}
	}
	kind := stages.Kind(x.opts.Takes)
	path, err := x.writeInput(i, e, kind)
	if path != "" {
		r.Inputs[string(kind)] = path
	}
	return r, err
}

// writeInput writes the element's data of a kind and returns the path, "" if the data is in the params.
func (x *exchange) writeInput(i int, e *stages.Element, kind stages.Kind) (string, error) {
	name := func(ext string) string { return filepath.Join(x.dir, fmt.Sprintf("in-%d-%s%s", i, kind, ext)) }
	switch kind {
	case stages.KindMedia:
		if m := e.Media; m != nil {
			return name(m.Ext), os.WriteFile(name(m.Ext), m.Data, 0o600)
		}
		return filepath.Abs(x.media[i])
	case stages.KindVideo:
		return name(e.Video.Ext), os.WriteFile(name(e.Video.Ext), e.Video.Data, 0o600)
	case stages.KindText:
		tensors := map[string]safetensors.Tensor{tensorText: tensorOf(e.Text.Embedding)}
		if e.Text.Negative != nil {
			tensors[tensorNegative] = tensorOf(e.Text.Negative)
		}
		for _, l := range e.Text.Later {
			tensors[tensorLater+strconv.Itoa(l.Clip)] = tensorOf(l.Embedding)
		}
		return name(".safetensors"), writeTensors(name(".safetensors"), tensors, nil)
	case stages.KindLatents:
		z, metadata := e.Latents, map[string]string{metaScale: strconv.FormatFloat(e.LatentScale, 'g', -1, 64)}
		if z == nil { // the table has raw latents
			z, metadata[metaSpace] = e.RawLatents, stages.RawSpace
		}
		return name(".safetensors"), writeTensors(name(".safetensors"),
			map[string]safetensors.Tensor{tensorLatents: tensorOf(z)}, metadata)
	case stages.KindFrames:
		return name(".safetensors"), writeFrames(name(".safetensors"), e.Frames)
	}
	return "", nil
}

// tensorOf returns an array as a safetensors tensor. They share memory.
func tensorOf(a *stages.Array) safetensors.Tensor {
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a.Data))), 4*len(a.Data)) // all ports are little-endian
	return safetensors.Tensor{DType: "F32", Shape: a.Shape, Data: data}
}

func writeTensors(path string, tensors map[string]safetensors.Tensor, meta map[string]string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := safetensors.Write(f, tensors, meta); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// writeFrames writes a clip as one tensor (T, H, W, 3) of bytes.
func writeFrames(path string, c *schemas.Clip) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	info := safetensors.TensorInfo{Name: tensorFrames, DType: "U8", Shape: []int{len(c.Frames), c.Height, c.Width, 3}}
	meta := map[string]string{metaFPS: strconv.FormatFloat(c.FPS, 'g', -1, 64)}
	err = safetensors.Stream(out, []safetensors.TensorInfo{info}, meta, func(w io.Writer, _ safetensors.TensorInfo) error {
		for _, frame := range c.Frames {
			if _, err := w.Write(frame); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// value returns the row's value for a parameter, if it has one. The seeds of a row's videos are consecutive.
func value(r *schemas.PromptRow, p stages.Param) (v any, given bool) {
	if name, own := p.Column(); own {
		column, _ := r.Column(name)
		return column, column != nil
	}
	switch p {
	case stages.ParamPrompt:
		return r.Prompt, true
	case stages.ParamNegativePrompt:
		return r.NegativePrompt, true
	case stages.ParamSeed:
		const most = 1<<63 - 1
		return int64((uint64(*r.Seed) + uint64(r.SampleIndex)) & most), true
	case stages.ParamHeight:
		return r.Height, r.Height != 0
	case stages.ParamWidth:
		return r.Width, r.Width != 0
	case stages.ParamNumFrames:
		return r.NumFrames, r.NumFrames != 0
	case stages.ParamFPS:
		return r.FPS, r.FPS != 0
	case stages.ParamSteps:
		return r.NumInferenceSteps, r.NumInferenceSteps != 0
	case stages.ParamGuidanceScale:
		return r.Guidance(), r.GuidanceScale != nil
	case stages.ParamMaxSequenceLength:
		return r.MaxSequenceLength, r.MaxSequenceLength != 0
	case stages.ParamMedia:
		return r.Media, r.Media != ""
	case stages.ParamReference:
		return r.Reference, r.Reference != ""
	case stages.ParamNoise:
		return r.Noise, r.Noise != ""
	case stages.ParamAes:
		return r.Aes, r.Aes != ""
	case stages.ParamFlow:
		return r.Flow, r.Flow != ""
	case stages.ParamCameraMotion:
		return r.CameraMotion, r.CameraMotion != ""
	}
	return nil, false
}
