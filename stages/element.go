package stages

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// Array is a dense row-major fp32 array on the host, the form in which tensors cross seams.
type Array struct {
	Shape []int
	Data  []float32
}

// NewArray returns a zeroed array of the given shape.
func NewArray(shape ...int) *Array {
	return &Array{Shape: shape, Data: make([]float32, kernels.Elements(shape))}
}

// Text is what a text encoder makes of one prompt.
type Text struct {
	Embedding *Array // (L, C): one row a token, the end token included, no padding
	Negative  *Array // (L', C) of the negative prompt; nil: the model's own null caption
	// Later are embeddings that replace Embedding from a later clip of the video on, in order.
	Later []LaterText
}

// LaterText is the text embedding that holds from clip number Clip on.
type LaterText struct {
	Clip      int
	Embedding *Array // (L, C)
}

// At returns the embedding that holds for a clip.
func (t *Text) At(clip int) *Array {
	at := t.Embedding
	for _, l := range t.Later {
		if l.Clip <= clip {
			at = l.Embedding
		}
	}
	return at
}

// Element is one row on its way through the stages, with the results of the stages so far. A stage sets the field of the
// kind that it gives, and may drop the field of the kind that it took.
type Element struct {
	Row   schemas.PromptRow // with the job's defaults filled in
	Given schemas.PromptRow // as the table gave it
	Key   schemas.Key
	// Wrong are the parameters that could not be read, by name, as the table has them.
	Wrong map[string]string

	// Media is the file that a stage made; nil: the row's media are still the file that Row.Media names.
	Media   *schemas.MediaFile
	Text    *Text
	Latents *Array // (C, T, H, W), scaled as the denoiser leaves them
	// RawLatents are the latents (C, T, H, W) in the space of the autoencoder, if encode_vae or a table gave them, else nil.
	// Tables hold RawLatents where there are any. A stage that changes Latents sets RawLatents to nil.
	RawLatents *Array
	// References are the latents (C, T, H, W) of the images and videos that the row is conditioned on.
	References []*Array
	// ImageEmbedding is (tokens, C): an image encoder's embeddings of the row's references, one after the other.
	ImageEmbedding *Array
	// Begun is how far an earlier attempt or process has sampled the row; nil: there is no earlier attempt.
	Begun *Steps
	// LatentScale is the factor between the VAE's own latents and Latents (0.18215 for sd-vae).
	LatentScale float64
	Frames      *schemas.Clip    // RGB24, what the video encoder takes
	Video       *schemas.Encoded // the file as it will be published
	Poster      []byte           // JPEG of one frame, for the gallery

	// Readings are values that stages measured in the result, by name. They depend on nothing else. They stand in the videos
	// table. If the prompt table has a column of the same name, the summary counts how often the two agree.
	Readings map[string]string
	// Looked is what measures have read off the result, by their IDs. It is not part of the result.
	Looked map[string]map[string]string
	// LookFailed says why measures could not look, by their IDs.
	LookFailed map[string]*Failure
	// Form numbers the ways in which keys are made under which the output has the row; 0 is the job's own.
	Form int
	// Settled is the result that an earlier run has published: only stages that look take the element. Nil: there is none.
	Settled *schemas.Result
	// Origin is a digest of the tensors that the element was read with, if its source is a table of tensors.
	Origin schemas.Key
	// Unread says why the source could not read the element's tensors, "" if it could.
	Unread string
	// Failed is the reason why the element goes no further; every later stage leaves it alone.
	Failed *Failure
}

// Has reports whether the element carries something of the kind.
func (e *Element) Has(k Kind) bool {
	switch k {
	case KindText:
		return e.Text != nil
	case KindLatents:
		return e.Latents != nil || e.RawLatents != nil
	case KindFrames:
		return e.Frames != nil
	case KindVideo:
		return e.Video != nil
	case KindMedia:
		return e.Media != nil || e.Row.Media != ""
	}
	return k == KindPrompt
}

// The values of the column latent_space of tables. Tables of earlier releases and of other programs have no such column; for
// them latent_scale says what the latents are.
const (
	ModelSpace = "model" // Element.Latents
	RawSpace   = "raw"   // Element.RawLatents
)

// TableLatents returns the latents of the element that a table holds, and their space.
func (e *Element) TableLatents() (z *Array, space string) {
	if e.RawLatents != nil {
		return e.RawLatents, RawSpace
	}
	return e.Latents, ModelSpace
}

// Read adds readings. The map that the element had is not changed.
func (e *Element) Read(readings map[string]string) {
	all := maps.Clone(e.Readings)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, readings)
	e.Readings = all
}

// NotFinite says where the element's tensors of the kind hold a NaN or an infinity, or "".
func (e *Element) NotFinite(k Kind) string {
	switch {
	case k == KindText && e.Text != nil:
		if why := e.Text.Embedding.notFinite("the text embedding"); why != "" {
			return why
		}
		for _, l := range e.Text.Later {
			if why := l.Embedding.notFinite("a later text embedding"); why != "" {
				return why
			}
		}
		return e.Text.Negative.notFinite("the negative text embedding")
	case k == KindLatents:
		return cmp.Or(e.Latents.notFinite("the latents"), e.RawLatents.notFinite("the raw latents"))
	}
	return ""
}

func (a *Array) notFinite(name string) string {
	if a == nil {
		return ""
	}
	i := slices.IndexFunc(a.Data, func(v float32) bool {
		return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0)
	})
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("value %d of %s is %v", i, name, a.Data[i])
}

// Drop removes the element's data of a kind. It is called when no later stage and no table needs them.
func (e *Element) Drop(k Kind) {
	switch k {
	case KindMedia:
		e.Media = nil
	case KindText:
		e.Text = nil
	case KindLatents:
		e.Latents, e.RawLatents = nil, nil
	case KindFrames:
		e.Frames = nil
	}
}

// Failure is why a row failed. It holds the text of the cause and not the cause itself, because elements
// may pass from process to process.
type Failure struct {
	Stage   string
	Class   fault.Class
	Message string
}

// IsDropped reports whether the job's own rules leave the element out.
func (f *Failure) IsDropped() bool { return f != nil && f.Class == fault.ClassDropped }

// Error makes a Failure an error whose text names the stage.
func (f *Failure) Error() string { return f.Stage + ": " + f.Message }

// Fail marks the element as failed in stage; the first failure stays.
func (e *Element) Fail(stage string, err error) {
	if e.Failed == nil {
		message := schemas.ValidText(err.Error(), schemas.MaxMessageBytes)
		e.Failed = &Failure{Stage: stage, Class: fault.ClassOf(err), Message: message}
	}
}

// Batch is the elements of one bucket that pass a stage together. Results never depend on which
// elements share a batch.
type Batch struct {
	Bucket   schemas.Bucket
	Elements []*Element
}

// Settled reports whether the batch is of elements that are finished and only looked at. Others are never among them.
func (b *Batch) Settled() bool { return len(b.Elements) > 0 && b.Elements[0].Settled != nil }

// Live returns the elements that have not failed.
func (b *Batch) Live() []*Element {
	live := make([]*Element, 0, len(b.Elements))
	for _, e := range b.Elements {
		if e.Failed == nil {
			live = append(live, e)
		}
	}
	return live
}
