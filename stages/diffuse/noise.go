package diffuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/dit"
	"latentbeam/stages/safetensors"
)

// noiseTensor is the tensor of a file of noise.
const noiseTensor = "noise"

// checkNoise refuses noise that a row cannot begin with.
func (s *stage) checkNoise(row *schemas.PromptRow) error {
	switch {
	case row.Noise == "":
		return nil
	case row.Loop > 1:
		return errors.New("noise is given for a video of several clips: give it to rows without loop")
	case row.NumVideosPerPrompt > 1:
		return fmt.Errorf("noise is given and num_videos_per_prompt is %d: all videos would be the same", row.NumVideosPerPrompt)
	}
	return s.withNoise(row.Noise, s.Config.LatentSize(row), func([]byte) error { return nil })
}

// withNoise reads the noise of a file, checks that it has this size, and calls use with its bytes.
func (s *stage) withNoise(path string, size dit.LatentSize, use func([]byte) error) (err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("noise: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	t, ok := f.Tensor(noiseTensor)
	want := s.Shape(size)
	switch {
	case !ok:
		return fmt.Errorf("noise: %s has the tensors %q: name one of them %q", path, f.Names(), noiseTensor)
	case t.DType != "F32":
		return fmt.Errorf("noise: the tensor in %s is %s, give float32 (F32)", path, t.DType)
	case !slices.Equal(t.Shape, want):
		return fmt.Errorf("noise: the tensor in %s has shape %v, the latents of the row have %v (channels, frames, height, "+
			"width)", path, t.Shape, want)
	}
	return use(t.Data)
}

// readNoises reads the noise files of a batch. An element with a file that cannot be read fails; the others are returned.
func (s *stage) readNoises(batch []*stages.Element, size dit.LatentSize) (fit []*stages.Element, noises map[*stages.Element][]float32) {
	for _, e := range batch {
		if e.Row.Noise == "" {
			fit = append(fit, e)
			continue
		}
		var values []float32
		err := s.withNoise(e.Row.Noise, size, func(data []byte) (err error) {
			values, err = floats(data)
			return err
		})
		if err != nil {
			e.Fail("denoise", fault.Row(err))
			continue
		}
		if noises == nil {
			noises = map[*stages.Element][]float32{}
		}
		fit, noises[e] = append(fit, e), values
	}
	return fit, noises
}

// floats decodes little-endian float32 values, which have to be finite.
func floats(data []byte) ([]float32, error) {
	out := make([]float32, len(data)/4)
	for i := range out {
		v := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		if v-v != 0 {
			return nil, fmt.Errorf("noise: value %d is %v", i, v)
		}
		out[i] = v
	}
	return out, nil
}
