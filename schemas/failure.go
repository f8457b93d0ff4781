package schemas

// FailureVersion names the table of failed rows of this release.
const FailureVersion = "failures/v1"

// MaxFailurePromptBytes is the length at which a failure row cuts the prompt: the row may have failed because its prompt is
// huge.
const MaxFailurePromptBytes = 1 << 10

// FailureRow says which row failed and why. Its texts are valid UTF-8 (see ValidText) even if the row failed because its input
// was not.
type FailureRow struct {
	ID      string `parquet:"id" json:"id"`
	Key     string `parquet:"key" json:"key"` // "" where the row failed before it had a key
	Prompt  string `parquet:"prompt" json:"prompt"`
	Source  string `parquet:"source" json:"source"`    // "shapes.csv:17"
	Class   string `parquet:"class,dict" json:"class"` // "row", "panic", "exhausted", ...
	Stage   string `parquet:"stage,dict" json:"stage"` // "read", "denoise", ...
	Message string `parquet:"message" json:"message"`  // what, why and the fix
	// JSON object of the row's parameters; a value that could not be parsed is in it as text
	Parameters string `parquet:"parameters" json:"parameters"`
	Extra      string `parquet:"extra" json:"extra"` // JSON object of the carried columns
	// SampleIndex is the number of the video among the videos of one row.
	SampleIndex       int64  `parquet:"sample_index" json:"sample_index"`
	LatentbeamVersion string `parquet:"latentbeam_version,dict" json:"latentbeam_version"`
}

// Schema names the table and its version.
func (FailureRow) Schema() string { return FailureVersion }

// ByteSize returns about how many bytes the row needs in a file.
func (r FailureRow) ByteSize() int {
	return fixedBytes + textBytes(r.ID, r.Key, r.Prompt, r.Source, r.Message, r.Parameters, r.Extra)
}
