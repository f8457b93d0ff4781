package schemas

import "strconv"

// Bucket holds the values that rows must share to be computed in one batch. It is comparable and serves as a map key. Model,
// sampler and dtype are not in it, because they are the same for all rows of a job.
type Bucket struct {
	Width, Height     int // pixels
	NumFrames         int
	NumInferenceSteps int
	MaxSequenceLength int
	Guided            bool // classifier-free guidance doubles the batch inside the denoiser
	BelowOne          bool // guidance_scale is below 1, which is no guidance for some models and arithmetic for others
	Negative          bool // a negative prompt doubles the texts to encode
	// Conditioned rows have reference images or consist of several clips; Loop is the number of clips.
	Conditioned bool
	Loop        int
}

// String returns the bucket's shape as WIDTHxHEIGHTxFRAMES, such as "512x288x16".
func (b Bucket) String() string {
	return strconv.Itoa(b.Width) + "x" + strconv.Itoa(b.Height) + "x" + strconv.Itoa(b.NumFrames)
}

// BucketOf returns the bucket of a resolved row (see PromptRow.WithDefaults). Rows with guidance scale 1 get a bucket of their
// own, because a model may compute them without the unconditional branch.
func BucketOf(r PromptRow) Bucket {
	return Bucket{Width: r.Width, Height: r.Height, NumFrames: r.NumFrames,
		NumInferenceSteps: r.NumInferenceSteps, MaxSequenceLength: r.MaxSequenceLength,
		Guided: r.Guided(), BelowOne: r.Guidance() < 1, Negative: r.NegativePrompt != "",
		Conditioned: r.Reference != "" && r.Reference != None || r.Loop > 1, Loop: max(r.Loop, 1)}
}
