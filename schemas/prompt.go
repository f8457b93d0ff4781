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
	// Resolution ("720p") and AspectRatio ("16:9") stand for Height and Width, see Sized.
	Resolution  string `json:"resolution,omitempty"`
	AspectRatio string `json:"aspect_ratio,omitempty"`
	// Scores that models from Open-Sora 1.2 on read behind the prompt: a number or a word; None: nothing is said.
	Aes          string `json:"aes,omitempty"`
	Flow         string `json:"flow,omitempty"`
	CameraMotion string `json:"camera_motion,omitempty"`
	// Media is the path of the video, image or folder of images that is to be encoded.
	Media string `json:"media,omitempty"`
	// Reference names images or videos to condition on, ";" between them, and MaskStrategy which of their
	// latent frames go where (see stages/diffuse/condition).
	Reference    string `json:"reference,omitempty"`
	MaskStrategy string `json:"mask_strategy,omitempty"`
	// Loop is how many clips make the video, each going on from the last ConditionFrameLength latent frames of
	// the one before, which are noised again by the part ConditionFrameEdit.
	Loop                 int      `json:"loop,omitempty"`
	ConditionFrameLength int      `json:"condition_frame_length,omitempty"`
	ConditionFrameEdit   *float64 `json:"condition_frame_edit,omitempty"`
	// GuidanceScale2 is the guidance scale of the second of two denoisers, for low noise.
	GuidanceScale2 *float64 `json:"guidance_scale_2,omitempty" digest:"later"`
	// Noise is the path of a safetensors file whose tensor "noise" (C, T, H, W), float32, replaces the noise that the
	// latents begin with.
	Noise string `json:"noise,omitempty" digest:"later"`
	// Cut is the part of Media that the row is made of, where the job cuts its input; nil: see schemas.Cut.
	Cut *Cut `json:"cut,omitempty" digest:"later"`
	// DecodeErrors says what becomes of Media and Reference with errors in frames that are used: DecodeErrorsFail (also ""), or
	// DecodeErrorsKeep. HDR says the same of video of high dynamic range: HDRKeep (also ""), HDRTonemap or HDRFail.
	DecodeErrors string `json:"decode_errors,omitempty" digest:"later"`
	HDR          string `json:"hdr,omitempty" digest:"later"`
	// SampleIndex numbers the videos of one row from 0 once the row is expanded.
	SampleIndex int `json:"sample_index,omitempty"`
	// Extra is a JSON object of the table's other columns in their order, "" where there are none.
	Extra string `json:"extra,omitempty"`
	// Source is where the row stands: "shapes.csv:17" or "shapes.parquet:row 17".
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

// Readings of media. They are left out where they are 0.
const (
	ReadingDecodeErrors = "decode_errors" // errors that the decoder reports up to the last frame of the clip
	ReadingTransfer     = "transfer"      // of video of high dynamic range: 16 is PQ, 18 is HLG (ITU-T H.273)
	// ReadingSourceMarks names the marks of synthetic media that the row's media or references carry, such as "aigc, iptc".
	ReadingSourceMarks = "source_marks"
)

// Readings of rows whose denoiser may leave evaluations of its network out (the options cache and guidance_interval): how many of one text
// were computed, and of how many.
const (
	ReadingComputed    = "computed_evaluations"
	ReadingEvaluations = "evaluations"
)

// ZeroReading reports whether a reading is 0 where a row does not have it.
func ZeroReading(name string) bool { return name == ReadingDecodeErrors || name == ReadingTransfer }

// Schema names the row type and its version.
func (PromptRow) Schema() string { return PromptVersion }

// ByteSize is about how much the row takes in a file.
func (r PromptRow) ByteSize() int {
	return fixedBytes + textBytes(r.ID, r.Prompt, r.NegativePrompt, r.Extra, r.Source, r.Resolution, r.AspectRatio,
		r.Aes, r.Flow, r.CameraMotion, r.Reference, r.MaskStrategy, r.Media, r.Noise)
}

// WithDefaults returns the row with everything it does not say taken from d. Prompt, ID, Extra, Source and
// SampleIndex are never taken from d, and neither is the seed: a job's seed is not a row's seed.
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

// fill sets *v to d where it says nothing.
func fill[T comparable](v *T, d T) { *v = cmp.Or(*v, d) }

// Guidance is the guidance scale, 0 where the row is silent.
func (r PromptRow) Guidance() float64 {
	if r.GuidanceScale == nil {
		return 0
	}
	return *r.GuidanceScale
}

// Guided reports whether the row is computed with an unconditional half. At scale 1 that half would cancel out.
func (r PromptRow) Guided() bool { return r.Guidance() != 1 }

// GuidedScale is the guidance scale that the row gives, nil where it gives none or one without guidance.
func (r PromptRow) GuidedScale() *float64 {
	if r.GuidanceScale == nil || *r.GuidanceScale <= 1 {
		return nil
	}
	return r.GuidanceScale
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

// appendLater adds the parameters of later versions that the row gives, under their names. Rows without them keep
// their ids.
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

// given writes a number, "" for one that the row does not give.
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
