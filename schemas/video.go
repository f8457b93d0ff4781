package schemas

// VideoVersion names the table of finished videos of this release.
const VideoVersion = "videos/v1"

// VideoRow says which video a prompt row became, and everything needed to make it again. One input row and
// sample index has one row; rows with equal keys name the same file.
type VideoRow struct {
	ID                string  `parquet:"id,zstd" json:"id"`
	Key               string  `parquet:"key,zstd" json:"key"` // hex SHA-256, also the file's name
	Prompt            string  `parquet:"prompt,zstd" json:"prompt"`
	NegativePrompt    string  `parquet:"negative_prompt,zstd" json:"negative_prompt"`
	Seed              int64   `parquet:"seed,zstd" json:"seed"`
	SampleIndex       int64   `parquet:"sample_index,zstd" json:"sample_index"`
	Model             string  `parquet:"model,dict,zstd" json:"model"`
	Height            int64   `parquet:"height,zstd" json:"height"` // pixels
	Width             int64   `parquet:"width,zstd" json:"width"`   // pixels
	NumFrames         int64   `parquet:"num_frames,zstd" json:"num_frames"`
	FPS               float64 `parquet:"fps,zstd" json:"fps"`
	NumInferenceSteps int64   `parquet:"num_inference_steps,zstd" json:"num_inference_steps"`
	GuidanceScale     float64 `parquet:"guidance_scale,zstd" json:"guidance_scale"`
	MaxSequenceLength int64   `parquet:"max_sequence_length,zstd" json:"max_sequence_length"`
	VideoPath         string  `parquet:"video_path,zstd" json:"video_path"`     // relative to the output
	VideoBytes        int64   `parquet:"video_bytes,zstd" json:"video_bytes"`   // the file's length
	VideoSHA256       string  `parquet:"video_sha256,zstd" json:"video_sha256"` // hex
	Poster            string  `parquet:"poster,zstd" json:"poster"`             // relative path, "" where none
	Codec             string  `parquet:"codec,dict,zstd" json:"codec"`          // "h264", "png", ...
	Readings          string  `parquet:"readings,zstd" json:"readings"`         // JSON object: what stages read back
	WeightsDigest     string  `parquet:"weights_digest,dict,zstd" json:"weights_digest"`
	Class             string  `parquet:"class,dict,zstd" json:"class"` // numeric class: backend, ISA tier, dtype
	LatentbeamVersion string  `parquet:"latentbeam_version,dict,zstd" json:"latentbeam_version"`
	Extra             string  `parquet:"extra,zstd" json:"extra"` // JSON object of the carried columns
}

// Schema names the table and its version.
func (VideoRow) Schema() string { return VideoVersion }

// ByteSize is about how much the row takes in a file.
func (r VideoRow) ByteSize() int {
	return fixedBytes + textBytes(r.ID, r.Key, r.Prompt, r.NegativePrompt, r.VideoPath, r.VideoSHA256, r.Poster,
		r.Readings, r.Extra)
}
