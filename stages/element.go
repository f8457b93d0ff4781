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

// Array is a dense row-major fp32 array on the host. Tensors pass between stages in this form.
type Array struct {
	Shape []int
	Data  []float32
}

// NewArray returns a zeroed array of the given shape.
func NewArray(shape ...int) *Array {
	return &Array{Shape: shape, Data: make([]float32, kernels.Elements(shape))}
}

// Text is the output of a text encoder for one prompt.
type Text struct {
	Embedding *Array // (L, C): one row for each token, with the end token, without padding
	Negative  *Array // (L', C) of the negative prompt; nil: the model uses its own null caption
	// Later has embeddings that replace Embedding from a later clip of the video on, in order.
	Later []LaterText
}

// LaterText is a text embedding that is used from clip number Clip on.
type LaterText struct {
	Clip      int
	Embedding *Array // (L, C)
}

// At returns the embedding for a clip.
func (t *Text) At(clip int) *Array {
	at := t.Embedding
	for _, l := range t.Later {
		if l.Clip <= clip {
			at = l.Embedding
		}
	}
	return at
}

// Element is one row on its way through the stages, with the results of the stages so far. A stage sets the field for the kind
// that it gives. It may drop the field for the kind that it takes.
type Element struct {
	Row   schemas.PromptRow // with the job's defaults filled in
	Given schemas.PromptRow // as the table has it
	Key   schemas.Key
	// Wrong maps the name of a parameter that could not be read to its text in the table.
	Wrong map[string]string

	// Media is a file that a stage made; nil: the row's media are the file that Row.Media names.
	Media   *schemas.MediaFile
	Text    *Text
	Latents *Array // (C, T, H, W), scaled as the denoiser leaves them
	// RawLatents are the latents (C, T, H, W) in the space of the autoencoder, if encode_vae or a table provided them, else
	// nil. If they are set, tables store them instead of Latents. A stage that changes Latents sets RawLatents to nil.
	RawLatents *Array
	// References are the latents (C, T, H, W) of the images and videos that the row is conditioned on.
	References []*Array
	// ImageEmbedding (tokens, C) has the image encoder's embeddings of the row's references, one after another.
	ImageEmbedding *Array
	// Begun is the progress that an earlier attempt or process made in sampling the row; nil: there is none.
	Begun *Steps
	// LatentScale is Latents divided by the VAE's own latents (0.18215 for sd-vae).
	LatentScale float64
	Frames      *schemas.Clip    // RGB24, what the video encoder takes
	Video       *schemas.Encoded // the file as it will be published
	Poster      []byte           // JPEG of one frame, for the gallery

	// Readings are values that stages measured in the result, by name. They depend on nothing but the result, and go to the
	// videos table. If the prompt table has a column of the same name, the summary counts how often the two agree.
	Readings map[string]string
	// Looked has the readings of measures, by measure ID. They are not part of the result.
	Looked map[string]map[string]string
	// LookFailed has the failures of measures, by measure ID.
	LookFailed map[string]*Failure
	// Form is the number of the version of the keys under which the output has the row; 0: the job's own keys.
	Form int
	// Settled is the result that an earlier run has published; only stages that look process such an element. Nil: there is
	// none.
	Settled *schemas.Result
	// Origin is a digest of the tensors that the element was read with, if its source is a table of tensors
	Origin schemas.Key
	// Unread says why the source could not read the element's tensors, "" if it could.
	Unread string
	// Failed is the reason why the element failed. Later stages skip it.
	Failed *Failure
}

// Has reports whether the element has data of this kind.
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

// The values of the column latent_space. Tables of earlier releases and of other programs do not have the column; their
// latent_scale says what the latents are.
const (
	ModelSpace = "model" // Element.Latents
	RawSpace   = "raw"   // Element.RawLatents
)

// TableLatents returns the latents that a table stores for the element, and their space.
func (e *Element) TableLatents() (z *Array, space string) {
	if e.RawLatents != nil {
		return e.RawLatents, RawSpace
	}
	return e.Latents, ModelSpace
}

// Read adds readings. It does not modify the map that the element had.
func (e *Element) Read(readings map[string]string) {
	all := maps.Clone(e.Readings)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, readings)
	e.Readings = all
}

// NotFinite describes where the element's tensors of this kind hold a NaN or an infinity, "" if they do not.
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

// Drop removes the element's data of a kind. It is called when no later stage and no table needs the data.
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

// Failure says why a row failed. It holds the text of the cause, not the error itself, because elements may pass from process
// to process.
type Failure struct {
	Stage   string
	Class   fault.Class
	Message string
}

// IsDropped reports whether a rule of the job dropped the element.
func (f *Failure) IsDropped() bool { return f != nil && f.Class == fault.ClassDropped }

// Error returns the message with the name of the stage.
func (f *Failure) Error() string { return f.Stage + ": " + f.Message }

// Fail marks the element as failed in stage. If it has failed before, the first failure stays.
func (e *Element) Fail(stage string, err error) {
	if e.Failed == nil {
		message := schemas.ValidText(err.Error(), schemas.MaxMessageBytes)
		e.Failed = &Failure{Stage: stage, Class: fault.ClassOf(err), Message: message}
	}
}

// Batch is a group of elements of one bucket that a stage processes together. Results never depend on which elements share a
// batch.
type Batch struct {
	Bucket   schemas.Bucket
	Elements []*Element
}

// Settled reports whether the elements of the batch have a published result and are only measured at. A batch has either only
// such elements or none.
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
