package schemas

// LatentVersion names the table of video latents of this release.
const LatentVersion = "latents/v1"

// LatentRow is the latent of one video. The first fifteen columns have the names, the order and the types of FastVideo's
// pyarrow_schema_t2v, so that its trainers read our files; our own columns follow. FastVideo always reads float32, even if the
// dtype column names another type. A row without a text embedding has empty bytes, shape and dtype, as in FastVideo. NumFrames
// counts latent frames, as in FastVideo; VideoFrames counts the frames of the decoded video.
type LatentRow struct {
	ID                 string  `parquet:"id" json:"id"`
	VAELatentBytes     []byte  `parquet:"vae_latent_bytes,plain,uncompressed" json:"-"`
	VAELatentShape     []int64 `parquet:"vae_latent_shape,list" json:"vae_latent_shape"` // (C, T, H, W)
	VAELatentDType     string  `parquet:"vae_latent_dtype,dict" json:"vae_latent_dtype"`
	TextEmbeddingBytes []byte  `parquet:"text_embedding_bytes,dict,uncompressed" json:"-"`       // a row group has equal ones once
	TextEmbeddingShape []int64 `parquet:"text_embedding_shape,list" json:"text_embedding_shape"` // (L, D)
	TextEmbeddingDType string  `parquet:"text_embedding_dtype,dict" json:"text_embedding_dtype"`
	FileName           string  `parquet:"file_name" json:"file_name"`
	Caption            string  `parquet:"caption" json:"caption"`
	MediaType          string  `parquet:"media_type,dict" json:"media_type"` // "video" or "image"
	Width              int64   `parquet:"width" json:"width"`                // pixels
	Height             int64   `parquet:"height" json:"height"`              // pixels
	NumFrames          int64   `parquet:"num_frames" json:"num_frames"`
	DurationSec        float64 `parquet:"duration_sec" json:"duration_sec"`
	FPS                float64 `parquet:"fps" json:"fps"`

	Key               string  `parquet:"key" json:"key"`
	VideoFrames       int64   `parquet:"video_frames" json:"video_frames"`
	LatentScale       float64 `parquet:"latent_scale" json:"latent_scale"` // stored = VAE's latent * this
	VAELatentSHA256   string  `parquet:"vae_latent_sha256" json:"vae_latent_sha256"`
	NegativePrompt    string  `parquet:"negative_prompt" json:"negative_prompt"`
	Seed              int64   `parquet:"seed" json:"seed"`
	SampleIndex       int64   `parquet:"sample_index" json:"sample_index"`
	NumInferenceSteps int64   `parquet:"num_inference_steps" json:"num_inference_steps"`
	GuidanceScale     float64 `parquet:"guidance_scale" json:"guidance_scale"`
	MaxSequenceLength int64   `parquet:"max_sequence_length" json:"max_sequence_length"`
	Model             string  `parquet:"model,dict" json:"model"`
	WeightsDigest     string  `parquet:"weights_digest,dict" json:"weights_digest"`
	Class             string  `parquet:"class,dict" json:"class"`
	LatentbeamVersion string  `parquet:"latentbeam_version,dict" json:"latentbeam_version"`
	Extra             string  `parquet:"extra" json:"extra"`

	// Loop is the number of clips in the latent, one after another. Each decodes to VideoFrames frames, and from the second
	// clip on each starts with the last ConditionFrameLength latent frames of the clip before it.
	Loop                 int64 `parquet:"loop" json:"loop"`
	ConditionFrameLength int64 `parquet:"condition_frame_length" json:"condition_frame_length"`

	// LatentSpace is "raw" for the autoencoder's own latents and "model" for the denoiser's: (raw - mean) / std, with
	// latents_mean and latents_std from the file's metadata. Rows of earlier releases have no LatentSpace; LatentScale says how
	// to read them.
	LatentSpace string `parquet:"latent_space,dict" json:"latent_space"`
}

// Schema names the table and its version.
func (LatentRow) Schema() string { return LatentVersion }

// ByteSize returns about how many bytes the row needs in a file.
func (r LatentRow) ByteSize() int {
	return fixedBytes + len(r.VAELatentBytes) + len(r.TextEmbeddingBytes) +
		8*(len(r.VAELatentShape)+len(r.TextEmbeddingShape)) +
		textBytes(r.ID, r.FileName, r.Caption, r.Key, r.VAELatentSHA256, r.NegativePrompt, r.Extra)
}

// ClipLatentRow is a LatentRow of a job that cuts its media into clips. It also says which part of the file was encoded.
type ClipLatentRow struct {
	LatentRow

	Bucket string `parquet:"bucket,dict" json:"bucket"` // WIDTHxHEIGHTxFRAMES
	// FrameStart and FrameCount count frames at FPS. If FrameCount is less than VideoFrames, the frames or the last frame
	// repeat.
	FrameStart int64 `parquet:"frame_start" json:"frame_start"`
	FrameCount int64 `parquet:"frame_count" json:"frame_count"`
	// CropX and CropY are the position of the clip in the resized frame, in pixels. If one is negative, the clip has a border.
	CropX   int64 `parquet:"crop_x" json:"crop_x"`
	CropY   int64 `parquet:"crop_y" json:"crop_y"`
	Flipped int64 `parquet:"flipped" json:"flipped"` // 1: mirrored, left and right
}

// NewClipLatentRow returns the row for a latent that was made from the part r.Cut of the media of r.
func NewClipLatentRow(l LatentRow, r PromptRow) ClipLatentRow {
	row := ClipLatentRow{LatentRow: l}
	if c := r.Cut; c != nil {
		row.Bucket = Bucket{Width: r.Width, Height: r.Height, NumFrames: r.NumFrames}.String()
		row.FrameStart, row.FrameCount, row.CropX, row.CropY = int64(c.Start), int64(c.Count), int64(c.X), int64(c.Y)
		if c.Flipped {
			row.Flipped = 1
		}
	}
	return row
}

// PromptRow returns the prompt row that the latent was made from, for a job that starts from latents.
func (r LatentRow) PromptRow() PromptRow {
	seed, guidance := r.Seed, r.GuidanceScale
	clips, length := r.Loop, r.ConditionFrameLength
	if clips < 2 || clips > MaxLoop || length < 1 || length > MaxNumFrames {
		clips, length = 0, 0 // one clip, as tables of other programs have it
	}
	return PromptRow{ID: r.ID, Prompt: r.Caption, NegativePrompt: r.NegativePrompt, Seed: &seed,
		Height: int(r.Height), Width: int(r.Width), NumFrames: int(r.VideoFrames), FPS: r.FPS,
		NumInferenceSteps: int(r.NumInferenceSteps), GuidanceScale: &guidance,
		MaxSequenceLength: int(r.MaxSequenceLength), SampleIndex: int(r.SampleIndex), Extra: r.Extra,
		Loop: int(clips), ConditionFrameLength: int(length)}
}
