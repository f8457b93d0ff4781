package export

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/results/report"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages/weights/safetensors"
)

// wanChannels is the number of channels of latents in musubi-tuner's cache for Wan 2.1 and the 14B models of Wan 2.2.
const wanChannels = 16

// musubi writes the cache files of musubi-tuner for Wan. They contain latents in the space of denoisers, (raw - mean) / std, in
// bfloat16, and the valid tokens of the text. musubi-tuner parses size, position and frames from the end of a file's name. It can put
// clips of different sizes into one batch if its own buckets do not distinguish them. So each size has a folder, and
// dataset.toml lists each folder as a data set with this size as its only bucket. Images have folders of their own, because
// their names contain no position.
type musubi struct {
	*out
	sizes map[string]*sample
}

func newMusubi(o *out) *musubi {
	return &musubi{out: o, sizes: map[string]*sample{}}
}

// window matches the suffix of a clip's id if its video has several clips.
var window = regexp.MustCompile(`#w[0-9]{3,}$`)

func (m *musubi) add(s *sample) error {
	if err := m.needText(s); err != nil {
		return err
	}
	r := &s.row
	if r.VAELatentShape[0] != wanChannels || r.LatentScale != 0 && r.LatentScale != 1 {
		return fault.Usage(fmt.Errorf("export %s: latents of %d channels with scale %g are none of Wan's autoencoder of %d channels, "+
			"the one that musubi-tuner is written for here", s.src, r.VAELatentShape[0], r.LatentScale, wanChannels))
	}
	latents, err := m.model(s)
	if err != nil {
		return err
	}
	if v := cmp.Or(m.vae, s.vae); v != nil && len(slices.Compact(slices.Clone(v.Std))) == 1 {
		return fault.Usage(fmt.Errorf("export %s: the channels of its autoencoder have one factor, so it is none of Wan's, the one "+
			"that musubi-tuner is written for here", s.src))
	}
	stem, folder := window.ReplaceAllString(s.stem(), ""), s.bucket()
	stem = config.ShortName(stem, stem) // clips of one video share it
	name := fmt.Sprintf("%s/%s_%04dx%04d_wan.safetensors", folder, stem, r.Width, r.Height)
	metadata := map[string]string{"architecture": "wan", "width": strconv.FormatInt(r.Width, 10),
		"height": strconv.FormatInt(r.Height, 10), "format_version": "1.0.1"}
	if r.MediaType == "video" {
		name = fmt.Sprintf("%s/%s_%05d-%03d_%04dx%04d_wan.safetensors", folder, stem, s.cut.FrameStart, r.VideoFrames, r.Width, r.Height)
		metadata["frame_count"] = strconv.FormatInt(r.VideoFrames, 10)
	}
	if m.sizes[folder] == nil {
		m.sizes[folder] = &sample{row: schemas.LatentRow{Width: r.Width, Height: r.Height, VideoFrames: r.VideoFrames,
			MediaType: r.MediaType}}
	}
	shape := ints(r.VAELatentShape)
	key := fmt.Sprintf("latents_%dx%dx%d_bfloat16", shape[1], shape[2], shape[3])
	tensor := safetensors.Tensor{DType: "BF16", Shape: shape, Data: bf16(latents)}
	if err := m.tensors(name, map[string]safetensors.Tensor{key: tensor}, metadata); err != nil {
		return err
	}
	return m.text(folder+"/"+stem+"_wan_te.safetensors", s)
}

// text writes the text of a clip. The clips of one video share a file.
func (m *musubi) text(name string, s *sample) error {
	err := m.tensors(name, map[string]safetensors.Tensor{
		"varlen_t5_bfloat16": {DType: "BF16", Shape: ints(s.len), Data: bf16(s.text)},
	}, map[string]string{"architecture": "wan", "caption1": s.row.Caption, "format_version": "1.0.1"})
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := safetensors.Open(filepath.Join(m.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Metadata()["caption1"] != s.row.Caption {
		return fault.Usage(fmt.Errorf("export %s: another row has the file %s with another caption; give them other ids", s.src, name))
	}
	return nil
}

// close writes dataset.toml, the configuration of the data sets.
func (m *musubi) close() error {
	var text strings.Builder
	text.WriteString("[general]\nenable_bucket = false\nbatch_size = 1\ncaption_extension = \".txt\"\n")
	for _, folder := range slices.Sorted(maps.Keys(m.sizes)) {
		r, at := &m.sizes[folder].row, strconv.Quote(filepath.ToSlash(filepath.Join(m.final, folder)))
		fmt.Fprintf(&text, "\n[[datasets]]\nresolution = [%d, %d]\ncache_directory = %s\n", r.Width, r.Height, at)
		if r.MediaType == "video" {
			fmt.Fprintf(&text, "video_directory = %s\ntarget_frames = [%d]\n", at, r.VideoFrames)
		} else {
			fmt.Fprintf(&text, "image_directory = %s\n", at)
		}
	}
	return m.file("dataset.toml", func(w io.Writer) error {
		_, err := io.WriteString(w, text.String())
		return err
	})
}

// plain writes a safetensors file for each row, with the tensors of the table unchanged.
type plain struct{ *out }

func (p *plain) add(s *sample) error {
	stem, r := s.shortStem(), &s.row
	tensors := map[string]safetensors.Tensor{"latents": {DType: "F32", Shape: ints(r.VAELatentShape), Data: r.VAELatentBytes}}
	if s.half {
		tensors["latents"] = safetensors.Tensor{DType: "BF16", Shape: ints(r.VAELatentShape), Data: bf16(r.VAELatentBytes)}
	}
	if s.text != nil {
		tensors["text_embedding"] = safetensors.Tensor{DType: "F32", Shape: ints(s.len), Data: s.text}
	}
	return p.tensors(stem+".safetensors", tensors, facts(s))
}

func (p *plain) close() error { return nil }

// facts returns the facts of a row that are written beside its tensors.
func facts(s *sample) map[string]string {
	r := &s.row
	all := map[string]string{"id": r.ID, "key": r.Key, "caption": r.Caption, "file_name": r.FileName, "media_type": r.MediaType,
		"width": strconv.FormatInt(r.Width, 10), "height": strconv.FormatInt(r.Height, 10),
		"num_frames": strconv.FormatInt(r.VideoFrames, 10), "fps": strconv.FormatFloat(r.FPS, 'g', -1, 64),
		"latent_space": r.LatentSpace, "latent_scale": strconv.FormatFloat(r.LatentScale, 'g', -1, 64), "model": r.Model,
		"weights_digest": r.WeightsDigest}
	if s.vae != nil {
		all[report.LatentsMean], all[report.LatentsStd] = list(s.vae.Mean), list(s.vae.Std)
	}
	return all
}

// tensors writes a safetensors file.
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
