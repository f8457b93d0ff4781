package schemas

// EmbeddingVersion names the table of text embeddings of this release.
const EmbeddingVersion = "embeddings/v1"

// EmbeddingRow is one prompt's text embedding. The first columns are FastVideo's text-only schema, by name
// and type; a tensor is raw little-endian bytes with its shape and dtype beside it ("float32", "float16",
// "bfloat16", as numpy and torch call them). Only real tokens are stored, without padding: (text_length, D).
//
// The parameters are those the prompt row gave, null where it was silent: a job that starts from embeddings
// applies its own defaults. Those that the text depends on (negative_prompt, max_sequence_length) are what
// it was made with, and so is num_videos_per_prompt where the row or the job said it: there is a row a video.
type EmbeddingRow struct {
	ID string `parquet:"id" json:"id"`
	// TextEmbedding is that of the caption. Rows without one have all the same, as have the windows of a video, and a row
	// group holds each once.
	TextEmbeddingBytes []byte  `parquet:"text_embedding_bytes,dict,uncompressed" json:"-"`
	TextEmbeddingShape []int64 `parquet:"text_embedding_shape,list" json:"text_embedding_shape"`
	TextEmbeddingDType string  `parquet:"text_embedding_dtype,dict" json:"text_embedding_dtype"`
	// NegativeEmbedding is that of the negative prompt, empty where the model's null caption stands in. Rows have few
	// different ones, and a row group holds each once.
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

	// The texts of later clips of a video: from which clip on each holds, its tokens, and all of them behind each
	// other, (sum of lengths, D).
	LaterEmbeddingBytes   []byte  `parquet:"later_embedding_bytes,plain,uncompressed" json:"-"`
	LaterEmbeddingClips   []int64 `parquet:"later_embedding_clips,list" json:"later_embedding_clips"`
	LaterEmbeddingLengths []int64 `parquet:"later_embedding_lengths,list" json:"later_embedding_lengths"`
}

// Schema names the table and its version.
func (EmbeddingRow) Schema() string { return EmbeddingVersion }

// ByteSize is about how much the row takes in a file.
func (r EmbeddingRow) ByteSize() int {
	return fixedBytes + len(r.TextEmbeddingBytes) + len(r.NegativeEmbeddingBytes) + len(r.LaterEmbeddingBytes) +
		8*(len(r.TextEmbeddingShape)+len(r.NegativeEmbeddingShape)+2*len(r.LaterEmbeddingClips)) +
		textBytes(r.ID, r.Caption, r.Key, r.TextEmbeddingSHA256, r.NegativePrompt, r.Extra)
}

// PromptRow is the prompt row that the embedding was made from, for a job that starts here.
func (r EmbeddingRow) PromptRow() PromptRow {
	p := PromptRow{ID: r.ID, Prompt: r.Caption, NegativePrompt: r.NegativePrompt, Seed: r.Seed,
		Height: int(r.Height), Width: int(r.Width), NumFrames: int(r.NumFrames), FPS: r.FPS,
		NumInferenceSteps: int(r.NumInferenceSteps), GuidanceScale: r.GuidanceScale,
		MaxSequenceLength: int(r.MaxSequenceLength), NumVideosPerPrompt: int(r.NumVideosPerPrompt),
		SampleIndex: int(r.SampleIndex), Extra: r.Extra}
	return p.withCarried()
}

// NewEmbeddingRow fills in what an embedding row takes from its prompt row.
func NewEmbeddingRow(p PromptRow) EmbeddingRow {
	return EmbeddingRow{ID: p.ID, Caption: p.Prompt, NegativePrompt: p.NegativePrompt, Seed: p.Seed,
		Height: int64(p.Height), Width: int64(p.Width), NumFrames: int64(p.NumFrames), FPS: p.FPS,
		NumInferenceSteps: int64(p.NumInferenceSteps), GuidanceScale: p.GuidanceScale,
		MaxSequenceLength: int64(p.MaxSequenceLength), NumVideosPerPrompt: int64(p.NumVideosPerPrompt),
		SampleIndex: int64(p.SampleIndex), Extra: p.Extra}
}
