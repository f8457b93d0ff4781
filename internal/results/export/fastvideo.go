package export

import (
	"fmt"

	"latentbeam/internal/table/write"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// fastVideoRow is FastVideo's pyarrow_schema_t2v. FastVideo's loader reads all bytes as float32, pads the text with zeros, and
// makes the mask itself. num_frames counts latent frames.
type fastVideoRow struct {
	ID                 string  `parquet:"id"`
	VAELatentBytes     []byte  `parquet:"vae_latent_bytes,plain,uncompressed"`
	VAELatentShape     []int64 `parquet:"vae_latent_shape,list"` // (C, T, H, W), raw
	VAELatentDType     string  `parquet:"vae_latent_dtype,dict"`
	TextEmbeddingBytes []byte  `parquet:"text_embedding_bytes,plain,uncompressed"`
	TextEmbeddingShape []int64 `parquet:"text_embedding_shape,list"` // (L, D)
	TextEmbeddingDType string  `parquet:"text_embedding_dtype,dict"`
	FileName           string  `parquet:"file_name"`
	Caption            string  `parquet:"caption"`
	MediaType          string  `parquet:"media_type,dict"`
	Width              int64   `parquet:"width"`
	Height             int64   `parquet:"height"`
	NumFrames          int64   `parquet:"num_frames"`
	DurationSec        float64 `parquet:"duration_sec"`
	FPS                float64 `parquet:"fps"`
}

// Schema names FastVideo's schema.
func (fastVideoRow) Schema() string { return "fastvideo/t2v" }

// ByteSize returns about how many bytes the row has in a file.
func (r fastVideoRow) ByteSize() int {
	return 256 + len(r.VAELatentBytes) + len(r.TextEmbeddingBytes) + len(r.Caption) + len(r.FileName)
}

// fastVideoGroup limits the bytes of a row group, because the loader reads a whole group for each row.
const fastVideoGroup = 4 << 20

// fastVideo writes a folder for each shape of latents, because the trainer stacks the rows of a batch.
type fastVideo struct {
	*out
	files shards[fastVideoRow]
}

func newFastVideo(o *out) *fastVideo {
	return &fastVideo{o, shards[fastVideoRow]{out: o, options: write.Options{RowGroupBytes: fastVideoGroup}}}
}

func (f *fastVideo) add(s *sample) error {
	if err := f.needText(s); err != nil {
		return err
	}
	if s.half {
		return fault.Usage(fmt.Errorf("export %s: its latent is in bfloat16, and FastVideo trains on float32 latents: encode with "+
			"store: float32", s.src))
	}
	raw, err := f.raw(s)
	if err != nil {
		return err
	}
	if err := f.files.describe(s, stages.RawSpace); err != nil {
		return err
	}
	r := &s.row
	row := fastVideoRow{ID: r.ID, VAELatentBytes: raw, VAELatentShape: r.VAELatentShape, VAELatentDType: "float32",
		TextEmbeddingBytes: s.text, TextEmbeddingShape: s.len, TextEmbeddingDType: "float32", FileName: r.FileName,
		Caption: r.Caption, MediaType: r.MediaType, Width: r.Width, Height: r.Height, NumFrames: r.VAELatentShape[1],
		DurationSec: r.DurationSec, FPS: r.FPS}
	return f.files.add(s.bucket()+"/data_chunk_%d.parquet", row)
}

func (f *fastVideo) close() error { return f.files.close() }
