package schemas

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// PromptVersion names the prompt row of this release.
const PromptVersion = "prompts/v1"

// PromptRow is one row of a prompt table. It says what the row itself asks for: a zero number, a nil pointer
// and an empty negative prompt mean that the row is silent and the defaults decide (see WithDefaults).
type PromptRow struct {
	ID             string `json:"id"` // the user's, or ContentID
	Prompt         string `json:"prompt"`
	NegativePrompt string `json:"negative_prompt,omitempty"`
	// Seed is used as it is; without one the seed follows from the job's seed and the prompt.
	Seed               *int64   `json:"seed,omitempty"`
	Height             int      `json:"height,omitempty"` // pixels
	Width              int      `json:"width,omitempty"`  // pixels
	NumFrames          int      `json:"num_frames,omitempty"`
	FPS                float64  `json:"fps,omitempty"` // frames a second
	NumInferenceSteps  int      `json:"num_inference_steps,omitempty"`
	GuidanceScale      *float64 `json:"guidance_scale,omitempty"`      // a pointer, because 0 means "unguided"
	MaxSequenceLength  int      `json:"max_sequence_length,omitempty"` // tokens
	NumVideosPerPrompt int      `json:"num_videos_per_prompt,omitempty"`
	// SampleIndex numbers the videos of one row from 0 once the row is expanded.
	SampleIndex int `json:"sample_index,omitempty"`
	// Extra is a JSON object of the table's other columns in their order, "" where there are none.
	Extra string `json:"extra,omitempty"`
	// Source is where the row stands: "shapes.csv:17" or "shapes.parquet:row 17".
	Source string `json:"source,omitempty"`
}

// Schema names the row type and its version.
func (PromptRow) Schema() string { return PromptVersion }

// ByteSize is about how much the row takes in a file.
func (r PromptRow) ByteSize() int {
	return fixedBytes + textBytes(r.ID, r.Prompt, r.NegativePrompt, r.Extra, r.Source)
}

// WithDefaults returns the row with everything it does not say taken from d. Prompt, ID, Extra, Source and
// SampleIndex are never taken from d, and neither is the seed: a job's seed is not a row's seed.
func (r PromptRow) WithDefaults(d PromptRow) PromptRow {
	if r.NegativePrompt == "" {
		r.NegativePrompt = d.NegativePrompt
	}
	if r.GuidanceScale == nil {
		r.GuidanceScale = d.GuidanceScale
	}
	if r.FPS == 0 {
		r.FPS = d.FPS
	}
	fill := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	fill(&r.Height, d.Height)
	fill(&r.Width, d.Width)
	fill(&r.NumFrames, d.NumFrames)
	fill(&r.NumInferenceSteps, d.NumInferenceSteps)
	fill(&r.MaxSequenceLength, d.MaxSequenceLength)
	fill(&r.NumVideosPerPrompt, d.NumVideosPerPrompt)
	return r
}

// Guidance is the guidance scale, 0 where the row is silent.
func (r PromptRow) Guidance() float64 {
	if r.GuidanceScale == nil {
		return 0
	}
	return *r.GuidanceScale
}

// Sample returns the row of video number i of a row with several videos.
func (r PromptRow) Sample(i int) PromptRow {
	r.SampleIndex = i
	return r
}

// contentIDBytes is the length of a derived id before hex: 128 bits, so that equal ids mean equal rows.
const contentIDBytes = 16

// ContentID is the id of a row that has none of its own: a hash of the prompt and of the parameters the row
// itself gives. It does not depend on the row's place, so reruns and reordered tables match; rows that are
// equal share it, for nothing tells them apart. Columns carried as Extra do not enter.
func (r PromptRow) ContentID() string {
	var space [1024]byte // most prompts fit
	b := space[:0]
	for _, s := range []string{"latentbeam/id/v1", r.Prompt, r.NegativePrompt} {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	number := func(given bool, v uint64) {
		if given {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	seed := int64(0)
	if r.Seed != nil {
		seed = *r.Seed
	}
	number(r.Seed != nil, uint64(seed))
	for _, v := range []int{r.Height, r.Width, r.NumFrames, r.NumInferenceSteps, r.MaxSequenceLength,
		r.NumVideosPerPrompt} {
		number(v != 0, uint64(v))
	}
	number(r.FPS != 0, math.Float64bits(r.FPS))
	number(r.GuidanceScale != nil, math.Float64bits(r.Guidance()))
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:contentIDBytes])
}
