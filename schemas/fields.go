package schemas

import (
	"fmt"
	"math"
	"strconv"
)

// Limits of the values that a row or a configuration may have. They prevent overflows and find typing mistakes early. The model
// checks later what it can do.
const (
	MaxPromptBytes       = 64 << 10 // far longer than any text encoder reads, and short enough for memory and tables
	MaxIDBytes           = 1 << 10
	MaxSide              = 16384 // pixels, height and width
	MaxNumFrames         = 65536
	MaxFPS               = 1000
	MaxInferenceSteps    = 1000 // the length of the published noise schedules
	MaxGuidanceScale     = 1000
	MaxSequenceLengthCap = 8192 // tokens of a prompt
	MaxVideosPerPrompt   = 100_000
	MaxNameBytes         = 256      // of a resolution, a score and the like
	MaxReferenceBytes    = 16 << 10 // several paths
	MaxLoop              = 1024
)

// Kind says what values a field takes.
type Kind int

// The kinds of Field.
const (
	Text Kind = iota
	Integer
	Real
)

// Field is one column of a prompt table and one key of the defaults.
type Field struct {
	Name     string   // the name, and the column name in a table
	Aliases  []string // other column names understood in tables
	Kind     Kind
	Min, Max float64 // inclusive bounds of a number; Max is the most bytes of a text
	// Carried columns also go to the output unchanged, as all columns without a Field do.
	Carried bool
}

// fields is the list of all parameters, in the order of the documentation.
var fields = []Field{
	{Name: "id", Kind: Text, Max: MaxIDBytes},
	{Name: "prompt", Aliases: []string{"caption", "text"}, Kind: Text, Max: MaxPromptBytes},
	{Name: "negative_prompt", Kind: Text, Max: MaxPromptBytes},
	{Name: "seed", Kind: Integer, Min: 0, Max: math.MaxInt64},
	{Name: "height", Kind: Integer, Min: 1, Max: MaxSide},
	{Name: "width", Kind: Integer, Min: 1, Max: MaxSide},
	{Name: "num_frames", Kind: Integer, Min: 1, Max: MaxNumFrames},
	{Name: "fps", Kind: Real, Min: math.SmallestNonzeroFloat64, Max: MaxFPS},
	{Name: "num_inference_steps", Aliases: []string{"steps"}, Kind: Integer, Min: 1, Max: MaxInferenceSteps},
	{Name: "guidance_scale", Kind: Real, Min: 0, Max: MaxGuidanceScale},
	{Name: "max_sequence_length", Kind: Integer, Min: 1, Max: MaxSequenceLengthCap},
	{Name: "num_videos_per_prompt", Kind: Integer, Min: 1, Max: MaxVideosPerPrompt},
	{Name: "resolution", Kind: Text, Max: MaxNameBytes, Carried: true},
	{Name: "aspect_ratio", Kind: Text, Max: MaxNameBytes, Carried: true},
	{Name: "aes", Kind: Text, Max: MaxNameBytes, Carried: true},
	{Name: "flow", Kind: Text, Max: MaxNameBytes, Carried: true},
	{Name: "camera_motion", Kind: Text, Max: MaxNameBytes, Carried: true},
	{Name: "reference", Aliases: []string{"reference_path"}, Kind: Text, Max: MaxReferenceBytes, Carried: true},
	{Name: "mask_strategy", Kind: Text, Max: MaxReferenceBytes, Carried: true},
	{Name: "loop", Kind: Integer, Min: 1, Max: MaxLoop, Carried: true},
	{Name: "condition_frame_length", Kind: Integer, Min: 1, Max: MaxNumFrames, Carried: true},
	{Name: "condition_frame_edit", Kind: Real, Min: 0, Max: 1, Carried: true},
	{Name: "guidance_scale_2", Kind: Real, Min: 0, Max: MaxGuidanceScale, Carried: true},
	{Name: "noise", Kind: Text, Max: MaxReferenceBytes, Carried: true},
	{Name: FieldMedia, Aliases: []string{"path", "video", "image", "video_path", "image_path", "file_name",
		"video_file_name", "image_file_name"}, Kind: Text, Max: MaxReferenceBytes, Carried: true},
	{Name: FieldSampleIndex, Kind: Integer, Min: 0, Max: MaxVideosPerPrompt - 1, Carried: true},
}

// FieldSampleIndex selects one video of a row that has several. It is not a field in tables of media, and not in jobs where a
// stage depends on a user's own column of this name.
const FieldSampleIndex = "sample_index"

// FieldMedia names the video or image of a row. It is a field only in tables of media. In other tables a column with its name or
// an alias is carried.
const FieldMedia = "media"

// Fields returns the list of all fields of a prompt table. The caller must not change it.
func Fields() []Field { return fields }

// FieldByName finds a field by its name, not by an alias.
func FieldByName(name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// CheckInteger returns an error if v is out of range.
func (f Field) CheckInteger(v int64) error {
	if f.Max < math.MaxInt64 && float64(v) > f.Max || float64(v) < f.Min {
		return fmt.Errorf("%d is out of range, %s", v, f.Range())
	}
	return nil
}

// CheckReal returns an error if v is out of range, a NaN or an infinity.
func (f Field) CheckReal(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < f.Min || v > f.Max {
		return fmt.Errorf("%v is out of range, %s", v, f.Range())
	}
	return nil
}

// Range returns the allowed values as text for an error message.
func (f Field) Range() string {
	top := strconv.FormatFloat(f.Max, 'f', -1, 64)
	switch {
	case f.Kind == Text:
		return fmt.Sprintf("a text of at most %s bytes", top)
	case f.Kind == Integer && f.Max >= math.MaxInt64:
		return "a whole number from 0 to 9223372036854775807"
	case f.Kind == Integer:
		return fmt.Sprintf("a whole number from %d to %s", int64(f.Min), top)
	case f.Min > 0:
		return "a number above 0 and at most " + top
	}
	return fmt.Sprintf("a number from %v to %s", f.Min, top)
}
