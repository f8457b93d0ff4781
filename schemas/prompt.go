package schemas

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
)

// PromptVersion names the prompt row of this release.
const PromptVersion = "prompts/v1"

// PromptRow is one row of a prompt table. It holds only the values that the row itself has. A zero number, a nil pointer and an
// empty negative prompt mean that the row has no value and the default is used (see WithDefaults).
type PromptRow struct {
	ID             string `json:"id"` // the user's, or ContentID
	Prompt         string `json:"prompt"`
	NegativePrompt string `json:"negative_prompt,omitempty"`
	// Seed is used unchanged. If it is nil, the seed is computed from the job's seed and the prompt.
	Seed               *int64   `json:"seed,omitempty"`
	Height             int      `json:"height,omitempty"` // pixels
	Width              int      `json:"width,omitempty"`  // pixels
	NumFrames          int      `json:"num_frames,omitempty"`
	FPS                float64  `json:"fps,omitempty"` // frames a second
	NumInferenceSteps  int      `json:"num_inference_steps,omitempty"`
	GuidanceScale      *float64 `json:"guidance_scale,omitempty"`      // a pointer, because 0 means "unguided"
	MaxSequenceLength  int      `json:"max_sequence_length,omitempty"` // tokens
	NumVideosPerPrompt int      `json:"num_videos_per_prompt,omitempty"`
	// Resolution ("720p") and AspectRatio ("16:9") can replace Height and Width, see Sized.
	Resolution  string `json:"resolution,omitempty"`
	AspectRatio string `json:"aspect_ratio,omitempty"`
	// Scores that models from Open-Sora 1.2 on read as part of the prompt: a number, a word, or None to add nothing.
	Aes          string `json:"aes,omitempty"`
	Flow         string `json:"flow,omitempty"`
	CameraMotion string `json:"camera_motion,omitempty"`
	// Media is the path of a video, an image or a folder of images that is to be encoded.
	Media string `json:"media,omitempty"`
	// Reference names the images or videos to condition on, separated by ";". MaskStrategy says where their latent frames go
	// (see stages/diffuse/condition).
	Reference    string `json:"reference,omitempty"`
	MaskStrategy string `json:"mask_strategy,omitempty"`
	// Loop is the number of clips of the video. Each clip continues from the last ConditionFrameLength latent frames of the
	// clip before it. ConditionFrameEdit is how much noise these frames get, from 0 to 1.
	Loop                 int      `json:"loop,omitempty"`
	ConditionFrameLength int      `json:"condition_frame_length,omitempty"`
	ConditionFrameEdit   *float64 `json:"condition_frame_edit,omitempty"`
	// GuidanceScale2 is the guidance scale of the second denoiser (low noise) in models that have two.
	GuidanceScale2 *float64 `json:"guidance_scale_2,omitempty" digest:"later"`
	// Noise is the path of a safetensors file. Its tensor "noise" (C, T, H, W), float32, replaces the initial noise.
	Noise string `json:"noise,omitempty" digest:"later"`
	// Cut is the part of Media that the row uses, in jobs that cut their input into clips; else nil.
	Cut *Cut `json:"cut,omitempty" digest:"later"`
	// DecodeErrors says what to do if frames of Media or Reference have decoding errors: DecodeErrorsFail (also "") or
	// DecodeErrorsKeep. HDR says what to do with video of high dynamic range: HDRKeep (also ""), HDRTonemap or HDRFail.
	DecodeErrors string `json:"decode_errors,omitempty" digest:"later"`
	HDR          string `json:"hdr,omitempty" digest:"later"`
	// MediaSeconds is the predicted processor time for reading the frames of Media; 0: not known. It is no part of the row.
	MediaSeconds float64 `json:"-" digest:"-"`
	// SampleIndex numbers the videos of one row from 0.
	SampleIndex int `json:"sample_index,omitempty"`
	// Extra is a JSON object of the carried columns in the order of the table, "" if there are none.
	Extra string `json:"extra,omitempty"`
	// Source is the position of the row in its table: "shapes.csv:17" or "shapes.parquet:row 17".
	Source string `json:"source,omitempty"`
}

// The values of DecodeErrors and HDR.
const (
	DecodeErrorsFail = "fail"
	DecodeErrorsKeep = "keep"
	HDRKeep          = "keep"
	HDRTonemap       = "tonemap"
	HDRFail          = "fail"
)

// Readings of media. A reading that is 0 is left out.
const (
	ReadingDecodeErrors = "decode_errors" // errors that the decoder reports up to the last frame of the clip
	ReadingTransfer     = "transfer"      // of video of high dynamic range: 16 is PQ, 18 is HLG (ITU-T H.273)
	// ReadingSourceMarks names the marks of synthetic media that the row's media or references carry, such as "aigc, iptc".
	ReadingSourceMarks = "source_marks"
)

// Readings of rows whose denoiser may skip evaluations of its network (options cache and guidance_interval): the number of
// evaluations that were computed for one text, and the number without skipping.
const (
	ReadingComputed    = "computed_evaluations"
	ReadingEvaluations = "evaluations"
)

// ZeroReading reports whether a missing reading of this name means 0.
func ZeroReading(name string) bool { return name == ReadingDecodeErrors || name == ReadingTransfer }

// Schema names the row type and its version.
func (PromptRow) Schema() string { return PromptVersion }

// ByteSize returns about how many bytes the row needs in a file.
func (r PromptRow) ByteSize() int {
	return fixedBytes + textBytes(r.ID, r.Prompt, r.NegativePrompt, r.Extra, r.Source, r.Resolution, r.AspectRatio,
		r.Aes, r.Flow, r.CameraMotion, r.Reference, r.MaskStrategy, r.Media, r.Noise)
}

// WithDefaults returns the row with its missing values taken from d. Prompt, ID, Extra, Source and SampleIndex are never taken
// from d. Neither is the seed, because a job's seed is not a row's seed.
func (r PromptRow) WithDefaults(d PromptRow) PromptRow {
	fill(&r.NegativePrompt, d.NegativePrompt)
	fill(&r.GuidanceScale, d.GuidanceScale)
	fill(&r.FPS, d.FPS)
	fill(&r.ConditionFrameEdit, d.ConditionFrameEdit)
	fill(&r.GuidanceScale2, d.GuidanceScale2)
	r = r.sizeFrom(d)
	fill(&r.NumFrames, d.NumFrames)
	fill(&r.NumInferenceSteps, d.NumInferenceSteps)
	fill(&r.MaxSequenceLength, d.MaxSequenceLength)
	fill(&r.NumVideosPerPrompt, d.NumVideosPerPrompt)
	fill(&r.Aes, d.Aes)
	fill(&r.Flow, d.Flow)
	fill(&r.CameraMotion, d.CameraMotion)
	fill(&r.Reference, d.Reference)
	fill(&r.MaskStrategy, d.MaskStrategy)
	fill(&r.Loop, d.Loop)
	fill(&r.ConditionFrameLength, d.ConditionFrameLength)
	fill(&r.Noise, d.Noise)
	fill(&r.DecodeErrors, d.DecodeErrors)
	fill(&r.HDR, d.HDR)
	return r
}

// fill sets *v to d if *v is zero.
func fill[T comparable](v *T, d T) { *v = cmp.Or(*v, d) }

// Guidance returns the guidance scale, 0 if the row has none.
func (r PromptRow) Guidance() float64 {
	if r.GuidanceScale == nil {
		return 0
	}
	return *r.GuidanceScale
}

// Guided reports whether the row is computed with an unconditional half. At scale 1 that half would cancel out.
func (r PromptRow) Guided() bool { return r.Guidance() != 1 }

// GuidedScale returns the row's guidance scale if it is above 1, else nil.
func (r PromptRow) GuidedScale() *float64 {
	if r.GuidanceScale == nil || *r.GuidanceScale <= 1 {
		return nil
	}
	return r.GuidanceScale
}

// Sample returns the row of video number i of a row that asks for several videos.
func (r PromptRow) Sample(i int) PromptRow {
	r.SampleIndex = i
	return r
}

// contentIDBytes is the length of a derived id before hex: 128 bits, so that equal ids mean equal rows.
const contentIDBytes = 16

// ContentID computes the id of a row that has none: a hash of the prompt and of the parameters that the row itself has. The id
// does not depend on the row's place, so it stays the same when a table is reordered. Equal rows share an id. Carried columns
// are not hashed.
func (r PromptRow) ContentID() string {
	var space [1024]byte // most prompts fit
	b := space[:0]
	for _, s := range []string{"latentbeam/id/v1", r.Prompt, r.NegativePrompt} {
		b = appendText(b, s)
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
	b = r.appendLater(b)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:contentIDBytes])
}

// appendLater adds the parameters that were introduced after version 1, with their names, if the row has them. So rows without
// them keep their ids.
func (r PromptRow) appendLater(b []byte) []byte {
	real := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	for _, p := range [][2]string{{"resolution", r.Resolution}, {"aspect_ratio", r.AspectRatio}, {"aes", r.Aes},
		{"flow", r.Flow}, {"camera_motion", r.CameraMotion}, {"reference", r.Reference},
		{"mask_strategy", r.MaskStrategy}, {FieldMedia, r.Media}, {"loop", given(r.Loop)},
		{"condition_frame_length", given(r.ConditionFrameLength)}, {"condition_frame_edit", real(r.ConditionFrameEdit)},
		{"guidance_scale_2", real(r.GuidanceScale2)}, {"noise", r.Noise}} {
		if p[1] != "" {
			b = appendText(appendText(b, p[0]), p[1])
		}
	}
	return b
}

// given formats a number; 0, a missing number, becomes "".
func given(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
