package diffuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/weights/safetensors"
)

// noiseTensor is the name of the tensor in a noise file.
const noiseTensor = "noise"

// checkNoise returns an error if a row's noise file cannot be used.
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

// withNoise reads a noise file, checks its size, and calls use with its bytes.
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

// readNoise reads the noise file of an element; nil if the element has none.
func (s *stage) readNoise(e *stages.Element, size dit.LatentSize) (values []float32, err error) {
	if e.Row.Noise == "" {
		return nil, nil
	}
	err = s.withNoise(e.Row.Noise, size, func(data []byte) (err error) {
		values, err = floats(data)
		return err
	})
	return values, err
}

// floats decodes little-endian float32 values. It returns an error if one is not finite.
func floats(data []byte) ([]float32, error) {
	out := make([]float32, len(data)/4)
	if _, err := binary.Decode(data, binary.LittleEndian, out); err != nil {
		return nil, fmt.Errorf("noise: %w", err)
	}
	if i := slices.IndexFunc(out, func(v float32) bool { return v-v != 0 }); i >= 0 {
		return nil, fmt.Errorf("noise: value %d is %v", i, out[i])
	}
	return out, nil
}
