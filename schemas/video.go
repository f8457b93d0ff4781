package schemas

// VideoVersion names the table of finished videos of this release.
const VideoVersion = "videos/v1"

// VideoRow says which video was made from a prompt row, and with which parameters. Each input row and sample index has one
// VideoRow; rows with equal keys name the same file.
type VideoRow struct {
	ID                string   `parquet:"id" json:"id"`
	Key               string   `parquet:"key" json:"key"` // hex SHA-256, also the file's name
	Prompt            string   `parquet:"prompt" json:"prompt"`
	NegativePrompt    string   `parquet:"negative_prompt" json:"negative_prompt"`
	Seed              int64    `parquet:"seed" json:"seed"`
	SampleIndex       int64    `parquet:"sample_index" json:"sample_index"`
	Model             string   `parquet:"model,dict" json:"model"`
	Height            int64    `parquet:"height,optional" json:"height"` // pixels
	Width             int64    `parquet:"width,optional" json:"width"`   // pixels
	NumFrames         int64    `parquet:"num_frames,optional" json:"num_frames"`
	FPS               float64  `parquet:"fps,optional" json:"fps"`
	NumInferenceSteps int64    `parquet:"num_inference_steps,optional" json:"num_inference_steps"`
	GuidanceScale     *float64 `parquet:"guidance_scale,optional" json:"guidance_scale"`
	MaxSequenceLength int64    `parquet:"max_sequence_length,optional" json:"max_sequence_length"`
	VideoPath         string   `parquet:"video_path" json:"video_path"`     // relative to the output
	VideoBytes        int64    `parquet:"video_bytes" json:"video_bytes"`   // the file's length
	VideoSHA256       string   `parquet:"video_sha256" json:"video_sha256"` // hex
	Poster            string   `parquet:"poster" json:"poster"`             // relative path, "" where none
	Codec             string   `parquet:"codec,dict" json:"codec"`          // "h264", "png", ...
	Readings          string   `parquet:"readings" json:"readings"`         // JSON object: what stages read back
	WeightsDigest     string   `parquet:"weights_digest,dict" json:"weights_digest"`
	Class             string   `parquet:"class,dict" json:"class"` // numeric class: backend, ISA tier, dtype
	LatentbeamVersion string   `parquet:"latentbeam_version,dict" json:"latentbeam_version"`
	Extra             string   `parquet:"extra" json:"extra"` // JSON object of the carried columns
}

// Schema names the table and its version.
func (VideoRow) Schema() string { return VideoVersion }

// ByteSize returns about how many bytes the row needs in a file.
func (r VideoRow) ByteSize() int {
	return fixedBytes + textBytes(r.ID, r.Key, r.Prompt, r.NegativePrompt, r.VideoPath, r.VideoSHA256, r.Poster,
		r.Readings, r.Extra)
}

// DatasetRow is a row of metadata.parquet at the top of an output: a VideoRow with the column file_name, which loaders of
// datasets expect.
type DatasetRow struct {
	FileName string `parquet:"file_name" json:"file_name"` // VideoPath
	VideoRow
}
