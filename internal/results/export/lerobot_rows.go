package export

// leRobotFrame is a row of the data, one for each frame of all episodes.
type leRobotFrame struct {
	Timestamp float32 `parquet:"timestamp"` // seconds from the start of the episode
	Frame     int64   `parquet:"frame_index"`
	Episode   int64   `parquet:"episode_index"`
	Index     int64   `parquet:"index"` // number of the frame in the data set
	Task      int64   `parquet:"task_index"`
}

// Schema names the rows.
func (leRobotFrame) Schema() string { return "lerobot/data" }

// ByteSize returns about how many bytes the row has in a file.
func (leRobotFrame) ByteSize() int { return 36 }

// leRobotEpisode is a row of the episodes. Columns with the prefix latentbeam/ describe the origin of the video.
type leRobotEpisode struct {
	Episode       int64    `parquet:"episode_index"`
	Tasks         []string `parquet:"tasks,list"`
	Length        int64    `parquet:"length"` // frames
	DataChunk     int64    `parquet:"data/chunk_index"`
	DataFile      int64    `parquet:"data/file_index"`
	From          int64    `parquet:"dataset_from_index"`
	To            int64    `parquet:"dataset_to_index"`
	VideoChunk    int64    `parquet:"videos/observation.images.video/chunk_index"`
	VideoFile     int64    `parquet:"videos/observation.images.video/file_index"`
	FromTimestamp float64  `parquet:"videos/observation.images.video/from_timestamp"`
	ToTimestamp   float64  `parquet:"videos/observation.images.video/to_timestamp"`

	// Statistics of the pixels by channel (3, 1, 1), values from 0 to 1.
	Min   channels `parquet:"stats/observation.images.video/min,list"`
	Max   channels `parquet:"stats/observation.images.video/max,list"`
	Mean  channels `parquet:"stats/observation.images.video/mean,list"`
	Std   channels `parquet:"stats/observation.images.video/std,list"`
	Q01   channels `parquet:"stats/observation.images.video/q01,list"`
	Q10   channels `parquet:"stats/observation.images.video/q10,list"`
	Q50   channels `parquet:"stats/observation.images.video/q50,list"`
	Q90   channels `parquet:"stats/observation.images.video/q90,list"`
	Q99   channels `parquet:"stats/observation.images.video/q99,list"`
	Count []int64  `parquet:"stats/observation.images.video/count,list"` // frames

	MetaChunk int64 `parquet:"meta/episodes/chunk_index"`
	MetaFile  int64 `parquet:"meta/episodes/file_index"`

	ID             string  `parquet:"latentbeam/id"`
	Key            string  `parquet:"latentbeam/key"`
	NegativePrompt string  `parquet:"latentbeam/negative_prompt"`
	Seed           int64   `parquet:"latentbeam/seed"`
	Steps          int64   `parquet:"latentbeam/num_inference_steps"`
	Guidance       float64 `parquet:"latentbeam/guidance_scale"` // NaN: none
	Model          string  `parquet:"latentbeam/model,dict"`
	Weights        string  `parquet:"latentbeam/weights_digest,dict"`
	Licence        string  `parquet:"latentbeam/model_licence,dict"`
	SHA256         string  `parquet:"latentbeam/video_sha256"`
	Readings       string  `parquet:"latentbeam/readings"` // JSON
	Extra          string  `parquet:"latentbeam/extra"`    // JSON; other columns of the input
}

// channels holds a value per channel, of shape (3, 1, 1).
type channels [][][]float64

// Schema names the rows.
func (leRobotEpisode) Schema() string { return "lerobot/episodes" }

// ByteSize returns about how many bytes the row has in a file.
func (e leRobotEpisode) ByteSize() int {
	return 512 + len(e.Tasks[0]) + len(e.NegativePrompt) + len(e.Readings) + len(e.Extra)
}

// leRobotTask is a row of the tasks. pandas reads the text as the index of the table.
type leRobotTask struct {
	Index int64  `parquet:"task_index"`
	Text  string `parquet:"__index_level_0__"`
}

// Schema names the rows.
func (leRobotTask) Schema() string { return "lerobot/tasks" }

// ByteSize returns about how many bytes the row has in a file.
func (t leRobotTask) ByteSize() int { return 16 + len(t.Text) }

// leRobotIndex tells pandas which column of the tasks is the index.
const leRobotIndex = `{"index_columns": ["__index_level_0__"], "column_indexes": [{"name": null, "field_name": null, "pandas_type": "unicode", ` +
	`"numpy_type": "object", "metadata": {"encoding": "UTF-8"}}], "columns": [{"name": "task_index", "field_name": "task_index", ` +
	`"pandas_type": "int64", "numpy_type": "int64", "metadata": null}, {"name": null, "field_name": "__index_level_0__", ` +
	`"pandas_type": "unicode", "numpy_type": "object", "metadata": null}], "creator": {"library": "latentbeam", "version": "1"}, ` +
	`"pandas_version": "2.2.0"}`

// videoRow reads the necessary columns of a table of videos, see schemas.VideoRow.
type videoRow struct {
	ID                string   `parquet:"id"`
	Key               string   `parquet:"key"`
	Prompt            string   `parquet:"prompt"`
	NegativePrompt    string   `parquet:"negative_prompt"`
	Seed              int64    `parquet:"seed"`
	Model             string   `parquet:"model"`
	Height            int64    `parquet:"height"`
	Width             int64    `parquet:"width"`
	NumFrames         int64    `parquet:"num_frames"`
	FPS               float64  `parquet:"fps"`
	NumInferenceSteps int64    `parquet:"num_inference_steps"`
	GuidanceScale     *float64 `parquet:"guidance_scale"`
	VideoPath         string   `parquet:"video_path"`
	VideoSHA256       string   `parquet:"video_sha256"`
	Codec             string   `parquet:"codec"`
	Readings          string   `parquet:"readings"`
	WeightsDigest     string   `parquet:"weights_digest"`
	Extra             string   `parquet:"extra"`
	Licence           string   `parquet:"model_licence"`
}

// Schema implements schemas.Row. It is not used, because the row is only read.
func (videoRow) Schema() string { return "" }

// ByteSize implements schemas.Row.
func (videoRow) ByteSize() int { return 0 }
