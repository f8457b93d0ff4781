package export

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"latentbeam/internal/table/write"
	"latentbeam/schemas/fault"
)

// fastVideoRow is FastVideo's pyarrow_schema_t2v. Its loader takes all bytes for float32, pads the text with zeros and
// makes the mask itself; num_frames counts latent frames.
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

// ByteSize is about how much the row takes in a file.
func (r fastVideoRow) ByteSize() int {
	return 256 + len(r.VAELatentBytes) + len(r.TextEmbeddingBytes) + len(r.Caption) + len(r.FileName)
}

// The bounds of a file, and of a row group: the loader reads a whole group for each row.
const (
	fastVideoFileBytes = 256 << 20
	fastVideoGroup     = 4 << 20
)

// fastVideo writes a folder for each shape of latents, because the rows of a batch are stacked.
type fastVideo struct {
	*out
	files map[string]*fastVideoFile
}

type fastVideoFile struct {
	number, size int
	file         *os.File
	rows         *write.Writer[fastVideoRow]
}

func (f *fastVideo) add(s *sample) error {
	if err := s.needText(); err != nil {
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
	r := &s.row
	row := fastVideoRow{ID: r.ID, VAELatentBytes: raw, VAELatentShape: r.VAELatentShape, VAELatentDType: "float32",
		TextEmbeddingBytes: s.text, TextEmbeddingShape: s.len, TextEmbeddingDType: "float32", FileName: r.FileName,
		Caption: r.Caption, MediaType: r.MediaType, Width: r.Width, Height: r.Height, NumFrames: r.VAELatentShape[1],
		DurationSec: r.DurationSec, FPS: r.FPS}
	bucket := fmt.Sprintf("%dx%dx%d", r.Width, r.Height, r.VideoFrames)
	if f.files == nil {
		f.files = map[string]*fastVideoFile{}
	}
	to := f.files[bucket]
	if to == nil {
		to = &fastVideoFile{}
		f.files[bucket] = to
	}
	if to.rows == nil {
		path := filepath.Join(f.dir, bucket, fmt.Sprintf("data_chunk_%d.parquet", to.number))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if to.file, err = os.Create(path); err != nil {
			return err
		}
		to.rows = write.NewWriter[fastVideoRow](to.file, write.Options{RowGroupBytes: fastVideoGroup})
	}
	if err := to.rows.Write(row); err != nil {
		return err
	}
	if to.size += row.ByteSize(); to.size >= fastVideoFileBytes {
		return f.end(to)
	}
	return nil
}

// end ends a file; the next row begins another.
func (f *fastVideo) end(to *fastVideoFile) error {
	if to.rows == nil {
		return nil
	}
	err := to.rows.Close()
	if n, seekErr := to.file.Seek(0, io.SeekCurrent); seekErr == nil {
		f.done.Files++
		f.done.Bytes += n
	}
	if closeErr := to.file.Close(); err == nil {
		err = closeErr
	}
	to.number, to.size, to.rows, to.file = to.number+1, 0, nil, nil
	return err
}

func (f *fastVideo) close() (err error) {
	for _, to := range f.files {
		if endErr := f.end(to); err == nil {
			err = endErr
		}
	}
	return err
}
