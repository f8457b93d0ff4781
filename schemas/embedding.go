package schemas

// EmbeddingVersion names the table of text embeddings of this release.
const EmbeddingVersion = "embeddings/v1"

// EmbeddingRow is the text embedding of one prompt. The first columns have the names and types of FastVideo's text-only schema.
// A tensor is stored as raw little-endian bytes; columns beside it hold its shape and its dtype ("float32", "float16" or
// "bfloat16", as in numpy and torch). Only real tokens are stored, without padding: (text_length, D).
//
// The parameter columns hold the values of the prompt row, and null where the row has none: a job that starts from embeddings
// applies its own defaults. Three columns differ. negative_prompt and max_sequence_length hold the values that the text was
// encoded with. num_videos_per_prompt is set if the row or the job set it, because the table has one row for each video.
type EmbeddingRow struct {
	ID string `parquet:"id" json:"id"`
	// TextEmbedding is the embedding of the caption. Rows without a caption and the windows of one video have equal embeddings;
	// a row group stores each embedding once.
	TextEmbeddingBytes []byte  `parquet:"text_embedding_bytes,dict,uncompressed" json:"-"`
	TextEmbeddingShape []int64 `parquet:"text_embedding_shape,list" json:"text_embedding_shape"`
	TextEmbeddingDType string  `parquet:"text_embedding_dtype,dict" json:"text_embedding_dtype"`
	// NegativeEmbedding is the embedding of the negative prompt; it is empty if the model's null caption is used. A row group
	// stores each embedding once.
	NegativeEmbeddingBytes []byte  `parquet:"negative_embedding_bytes,dict,uncompressed" json:"-"`
	NegativeEmbeddingShape []int64 `parquet:"negative_embedding_shape,list" json:"negative_embedding_shape"`
	Caption                string  `parquet:"caption" json:"caption"` // the prompt as it came in

	Key                 string   `parquet:"key" json:"key"`
	TextLength          int64    `parquet:"text_length" json:"text_length"` // tokens
	TextEmbeddingSHA256 string   `parquet:"text_embedding_sha256" json:"text_embedding_sha256"`
	NegativePrompt      string   `parquet:"negative_prompt" json:"negative_prompt"`
	Seed                *int64   `parquet:"seed,optional" json:"seed"`
	Height              int64    `parquet:"height,optional" json:"height"` // pixels
	Width               int64    `parquet:"width,optional" json:"width"`   // pixels
	NumFrames           int64    `parquet:"num_frames,optional" json:"num_frames"`
	FPS                 float64  `parquet:"fps,optional" json:"fps"`
	NumInferenceSteps   int64    `parquet:"num_inference_steps,optional" json:"num_inference_steps"`
	GuidanceScale       *float64 `parquet:"guidance_scale,optional" json:"guidance_scale"`
	MaxSequenceLength   int64    `parquet:"max_sequence_length,optional" json:"max_sequence_length"`
	NumVideosPerPrompt  int64    `parquet:"num_videos_per_prompt,optional" json:"num_videos_per_prompt"`
	SampleIndex         int64    `parquet:"sample_index" json:"sample_index"`
	Model               string   `parquet:"model,dict" json:"model"`
	WeightsDigest       string   `parquet:"weights_digest,dict" json:"weights_digest"`
	Class               string   `parquet:"class,dict" json:"class"`
	LatentbeamVersion   string   `parquet:"latentbeam_version,dict" json:"latentbeam_version"`
	Extra               string   `parquet:"extra" json:"extra"`

	// The embeddings of later clips of a video: the clip from which each is used, its number of tokens, and all embeddings
	// joined as one tensor (sum of lengths, D).
	LaterEmbeddingBytes   []byte  `parquet:"later_embedding_bytes,plain,uncompressed" json:"-"`
	LaterEmbeddingClips   []int64 `parquet:"later_embedding_clips,list" json:"later_embedding_clips"`
	LaterEmbeddingLengths []int64 `parquet:"later_embedding_lengths,list" json:"later_embedding_lengths"`
}

// Schema names the table and its version.
func (EmbeddingRow) Schema() string { return EmbeddingVersion }

// ByteSize returns about how many bytes the row needs in a file.
func (r EmbeddingRow) ByteSize() int {
	return fixedBytes + len(r.TextEmbeddingBytes) + len(r.NegativeEmbeddingBytes) + len(r.LaterEmbeddingBytes) +
		8*(len(r.TextEmbeddingShape)+len(r.NegativeEmbeddingShape)+2*len(r.LaterEmbeddingClips)) +
		textBytes(r.ID, r.Caption, r.Key, r.TextEmbeddingSHA256, r.NegativePrompt, r.Extra)
}

// PromptRow returns the prompt row that the embedding was made from, for a job that starts from embeddings.
func (r EmbeddingRow) PromptRow() PromptRow {
	p := PromptRow{ID: r.ID, Prompt: r.Caption, NegativePrompt: r.NegativePrompt, Seed: r.Seed,
		Height: int(r.Height), Width: int(r.Width), NumFrames: int(r.NumFrames), FPS: r.FPS,
		NumInferenceSteps: int(r.NumInferenceSteps), GuidanceScale: r.GuidanceScale,
		MaxSequenceLength: int(r.MaxSequenceLength), NumVideosPerPrompt: int(r.NumVideosPerPrompt),
		SampleIndex: int(r.SampleIndex), Extra: r.Extra}
	return p.withCarried()
}

// NewEmbeddingRow returns an embedding row with the values of its prompt row filled in.
func NewEmbeddingRow(p PromptRow) EmbeddingRow {
	return EmbeddingRow{ID: p.ID, Caption: p.Prompt, NegativePrompt: p.NegativePrompt, Seed: p.Seed,
		Height: int64(p.Height), Width: int64(p.Width), NumFrames: int64(p.NumFrames), FPS: p.FPS,
		NumInferenceSteps: int64(p.NumInferenceSteps), GuidanceScale: p.GuidanceScale,
		MaxSequenceLength: int64(p.MaxSequenceLength), NumVideosPerPrompt: int64(p.NumVideosPerPrompt),
		SampleIndex: int64(p.SampleIndex), Extra: p.Extra}
}
