package export

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/table/write"
	"latentbeam/kernels"
	"latentbeam/stages"
)

// huggingFaceRow is a row for the Python package datasets. Tensors are lists of float32 with separate columns for their shapes;
// with_format("torch") returns them as tensors.
type huggingFaceRow struct {
	ID                 string    `parquet:"id"`
	Caption            string    `parquet:"caption"`
	Latents            []float32 `parquet:"latents,list"`
	LatentsShape       []int64   `parquet:"latents_shape,list"` // (C, T, H, W)
	TextEmbedding      []float32 `parquet:"text_embedding,list"`
	TextEmbeddingShape []int64   `parquet:"text_embedding_shape,list"` // (L, D), valid tokens; empty without a text
	FileName           string    `parquet:"file_name"`
	MediaType          string    `parquet:"media_type"`
	Width              int64     `parquet:"width"`
	Height             int64     `parquet:"height"`
	NumFrames          int64     `parquet:"num_frames"` // frames of the video, not of the latent
	FPS                float64   `parquet:"fps"`
	FrameStart         int64     `parquet:"frame_start"`
	FrameCount         int64     `parquet:"frame_count"`
	CropX              int64     `parquet:"crop_x"`
	CropY              int64     `parquet:"crop_y"`
	Flipped            int64     `parquet:"flipped"`
	Key                string    `parquet:"key"`
	LatentSpace        string    `parquet:"latent_space,dict"` // raw or model; empty: table of an earlier release
	Extra              string    `parquet:"extra"`             // other columns of the input, in JSON
}

// Schema names the rows.
func (huggingFaceRow) Schema() string { return "hf/v1" }

// ByteSize returns about how many bytes the row has in a file.
func (r huggingFaceRow) ByteSize() int {
	return 256 + 4*(len(r.Latents)+len(r.TextEmbedding)) + len(r.Caption) + len(r.FileName) + len(r.Extra)
}

// huggingFaceGroup limits the bytes of a row group, because a reader decodes a whole group for one row.
const huggingFaceGroup = 16 << 20

// huggingFace writes a dataset for load_dataset: parquet files in a folder for each shape, and a card. The card defines a
// configuration for each folder, and a default configuration with all rows. Latents are in the space of the table.
type huggingFace struct {
	*out
	files shards[huggingFaceRow]
	rows  map[string]int64 // by bucket
	vae   *Statistics
	scale float64
	space string // space of the latents
}

func newHuggingFace(o *out) *huggingFace {
	return &huggingFace{out: o, rows: map[string]int64{},
		files: shards[huggingFaceRow]{out: o, options: write.Options{RowGroupBytes: huggingFaceGroup}}}
}

func (h *huggingFace) add(s *sample) error {
	r, bucket := &s.row, s.bucket()
	h.rows[bucket]++
	if err := h.files.describe(s, r.LatentSpace); err != nil {
		return err
	}
	h.vae, h.scale, h.space = s.vae, r.LatentScale, r.LatentSpace
	return h.files.add(bucket+"/%05d.parquet", huggingFaceRow{ID: r.ID, Caption: r.Caption, Latents: kernels.F32.Values(r.VAELatentBytes),
		LatentsShape: r.VAELatentShape, TextEmbedding: kernels.F32.Values(s.text), TextEmbeddingShape: s.len, FileName: r.FileName,
		MediaType: r.MediaType, Width: r.Width, Height: r.Height, NumFrames: r.VideoFrames, FPS: r.FPS,
		FrameStart: s.cut.FrameStart, FrameCount: s.cut.FrameCount, CropX: s.cut.CropX, CropY: s.cut.CropY,
		Flipped: s.cut.Flipped, Key: r.Key, LatentSpace: r.LatentSpace, Extra: r.Extra})
}

// close closes the files and writes the card.
func (h *huggingFace) close() error {
	if err := h.files.close(); err != nil {
		return err
	}
	var card strings.Builder
	card.WriteString("---\nconfigs:\n- config_name: default\n  default: true\n  data_files:\n  - split: train\n    path: \"*/*.parquet\"\n")
	buckets := slices.Sorted(maps.Keys(h.rows))
	for _, bucket := range buckets {
		fmt.Fprintf(&card, "- config_name: %q\n  data_files:\n  - split: train\n    path: %q\n", bucket, bucket+"/*.parquet")
	}
	card.WriteString("---\n\n# Latents and text embeddings\n\nEach row has `latents`, float32 of shape `latents_shape` (C, T, H, W), and " +
		"`text_embedding`, float32 of shape\n`text_embedding_shape` (tokens, width), without padding. The configurations are the " +
		"sizes, WIDTHxHEIGHTxFRAMES.\n\n")
	switch {
	case h.space == stages.RawSpace && h.vae != nil:
		fmt.Fprintf(&card, "`latents` are what the autoencoder gives. Denoisers take (latents - mean) / std "+
			"for each channel:\n\n- mean: %s\n- std: %s\n\n",
			list(h.vae.Mean), list(h.vae.Std))
	case h.space == stages.RawSpace:
		card.WriteString("`latents` are what the autoencoder gives.\n\n")
	case h.vae != nil:
		fmt.Fprintf(&card, "`latents` = (raw - mean) / std for each channel, where raw is what the autoencoder gives:\n\n"+
			"- mean: %s\n- std: %s\n\n",
			list(h.vae.Mean), list(h.vae.Std))
	case h.scale != 0:
		fmt.Fprintf(&card, "`latents` = raw * %g, where raw is what the autoencoder gives.\n\n", h.scale)
	}
	card.WriteString("| configuration | rows |\n|---|---|\n")
	for _, bucket := range buckets {
		fmt.Fprintf(&card, "| %s | %d |\n", bucket, h.rows[bucket])
	}
	return h.file("README.md", func(w io.Writer) error {
		_, err := io.WriteString(w, card.String())
		return err
	})
}

// list formats numbers as a JSON list.
func list(numbers []float64) string {
	text, _ := json.Marshal(numbers) // never fails: the numbers were read from JSON
	return string(text)
}
