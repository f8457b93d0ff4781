package export

import (
	"fmt"
	"io"
	"strconv"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages/safetensors"
)

// wanChannels is how many channels the latents have that musubi-tuner caches for Wan 2.1 and the 14B models of Wan 2.2.
const wanChannels = 16

// musubi writes the cache files of musubi-tuner for Wan: latents as denoisers take them, (raw - mean) / std, in bfloat16,
// and the valid tokens of the text. The reader takes size, position and frames from the right end of a file's name, and
// finds the bucket of a clip by that size: it is the size of the clip as it was encoded.
type musubi struct {
	*out
	seen map[string]string
}

func (m *musubi) add(s *sample) error {
	if err := s.needText(); err != nil {
		return err
	}
	r := &s.row
	if r.VAELatentShape[0] != wanChannels || r.LatentScale != 0 && r.LatentScale != 1 {
		return fault.Usage(fmt.Errorf("export %s: latents of %d channels with scale %g are none of Wan's autoencoder of %d channels, "+
			"the one that musubi-tuner is written for here", s.src, r.VAELatentShape[0], r.LatentScale, wanChannels))
	}
	stem, err := claim(m.seen, s)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s_%04dx%04d_wan.safetensors", stem, r.Width, r.Height)
	metadata := map[string]string{"architecture": "wan", "width": strconv.FormatInt(r.Width, 10),
		"height": strconv.FormatInt(r.Height, 10), "format_version": "1.0.1"}
	if r.MediaType == "video" {
		name = fmt.Sprintf("%s_%05d-%03d_%04dx%04d_wan.safetensors", stem, 0, r.VideoFrames, r.Width, r.Height)
		metadata["frame_count"] = strconv.FormatInt(r.VideoFrames, 10)
	}
	shape := ints(r.VAELatentShape)
	key := fmt.Sprintf("latents_%dx%dx%d_bfloat16", shape[1], shape[2], shape[3])
	err = m.tensors(name, map[string]safetensors.Tensor{key: {DType: "BF16", Shape: shape, Data: bf16(r.VAELatentBytes)}}, metadata)
	if err != nil {
		return err
	}
	return m.tensors(stem+"_wan_te.safetensors", map[string]safetensors.Tensor{
		"varlen_t5_bfloat16": {DType: "BF16", Shape: ints(s.len), Data: bf16(s.text)},
	}, map[string]string{"architecture": "wan", "caption1": r.Caption, "format_version": "1.0.1"})
}

func (m *musubi) close() error { return nil }

// plain writes a safetensors file for each row, as the table has it.
type plain struct {
	*out
	seen map[string]string
}

func (p *plain) add(s *sample) error {
	stem, err := claim(p.seen, s)
	if err != nil {
		return err
	}
	r := &s.row
	tensors := map[string]safetensors.Tensor{"latents": {DType: "F32", Shape: ints(r.VAELatentShape), Data: r.VAELatentBytes}}
	if s.half {
		tensors["latents"] = safetensors.Tensor{DType: "BF16", Shape: ints(r.VAELatentShape), Data: schemas.NarrowBF16(r.VAELatentBytes)}
	}
	if s.text != nil {
		tensors["text_embedding"] = safetensors.Tensor{DType: "F32", Shape: ints(s.len), Data: s.text}
	}
	return p.tensors(stem+".safetensors", tensors, facts(s))
}

func (p *plain) close() error { return nil }

// facts are what is said of a row beside its tensors.
func facts(s *sample) map[string]string {
	r := &s.row
	return map[string]string{"id": r.ID, "key": r.Key, "caption": r.Caption, "file_name": r.FileName, "media_type": r.MediaType,
		"width": strconv.FormatInt(r.Width, 10), "height": strconv.FormatInt(r.Height, 10),
		"num_frames": strconv.FormatInt(r.VideoFrames, 10), "fps": strconv.FormatFloat(r.FPS, 'g', -1, 64),
		"latent_scale": strconv.FormatFloat(r.LatentScale, 'g', -1, 64), "model": r.Model, "weights_digest": r.WeightsDigest}
}

func (o *out) tensors(name string, tensors map[string]safetensors.Tensor, metadata map[string]string) error {
	return o.file(name, func(w io.Writer) error { return safetensors.Write(w, tensors, metadata) })
}

func ints(shape []int64) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = int(d)
	}
	return out
}
