package dit

import (
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Network is one model of a family, opened with the options of a job. It is read-only.
type Network interface {
	// Describe returns what the stage must know about the network. It always returns the same value.
	Describe() Description
	// LatentSize returns the size of the latents of one clip of the row.
	LatentSize(row *schemas.PromptRow) LatentSize
	// Check returns an error if the network cannot process the row. The text names the parameter, its value and the possible
	// values. The stage itself checks what concerns all networks (guidance, steps, conditions).
	Check(row *schemas.PromptRow) error
	// Load reads weights from w by name and shape. w provides all weights, the part of one rank (weights.Weights.Cut and
	// Stage), or only shapes (weights.ShapesOnly).
	Load(w *weights.Weights) (Model, error)
}

// Model is a network with its weights on a device. It is read-only and may serve any backend of that device.
type Model interface {
	// Prepare uploads the texts and conditions of rows to the device and computes what all steps share, in the scope open at
	// the call. It is also called to measure memory and work, on a backend that tracks only shapes, with rows whose texts are
	// zeros.
	Prepare(be kernels.Backend, rows *Rows) (Batch, error)
}

// Batch is a set of prepared rows on one device. Its tokens are divided into parts (Rows.Parts). Each part is a video (n, T',
// W, C): n rows, all T' frames, W patches of each frame, C = Description.Hidden.
type Batch interface {
	// Embed writes the tokens x of a part, made from the patch vectors (n, T', W, c pt ph pw) of the latents. It is called on
	// the ranks with the first blocks.
	Embed(part int, x, vectors kernels.Tensor)
	// Advance runs the blocks of this rank on the tokens xs of all parts, in place. With last it returns the output (n, T', W,
	// pt ph pw c_out) of every part. The ranks of a set call it together (Rows.Split).
	Advance(xs []kernels.Tensor, at Instant, last bool) ([]kernels.Tensor, error)
}

// Description says what the stage must know about a network.
type Description struct {
	Name        string        // for messages, such as "Open-Sora 1.2"
	Channels    int           // of the latents
	OutChannels int           // of the prediction: Channels, or twice as many with the variance
	Patch       nn.Patch      // latent positions of a token
	Hidden      int           // width of a token in the blocks
	Heads       int           // of the attention that a set can share
	Blocks      int           // number of layers between which a pipeline can be split
	Sums        int           // layers of a block whose sums tensor parallelism splits; 0: tp_size is refused
	Full        bool          // attention is over all tokens of a video (nn.SelfAttention.AddFull), not inside frames
	Scored      float64       // with Full: average part of the token pairs that is scored; 0: all
	DType       kernels.DType // of weights and activations
	TextWidth   int           // width of a text token
	TextTokens  int           // most tokens of a text
	// PadsText says that the network attends to padding: texts are padded to TextLength.
	PadsText bool
	// UnguidedTo1 says that rows with a guidance_scale of at most 1 have no unguided branch, as in diffusers. Else only rows
	// with exactly 1 have none.
	UnguidedTo1 bool

	Options   Options           // the job's options that concern any network
	Recipe    sampler.Recipe    // how the network is sampled
	Params    []stages.Param    // columns that results depend on, besides the Spec's
	Published schemas.PromptRow // parameters that the model was published with
	Naming    *schemas.Naming   // how its family reads names of sizes and lengths
	// Boundary divides the steps between two denoisers: the first computes the steps with timesteps from Boundary up, the
	// second (transformer_2) the steps below. 0: there is one denoiser.
	Boundary float32
	// NoNegative is the negative prompt for rows with guidance that have none. schemas.None means the empty text; "" means that
	// the network uses its own null text.
	NoNegative  string
	LatentScale float64 // factor on the autoencoder's latents
	// Box is the fixed size that all latents are placed in while they are denoised, in the first corner. The rest of the box is
	// zeros, and the network masks it (Rows.Grid). Noise and results have the latents' own size. The zero value means no box. A
	// network that takes given frames has none.
	Box        LatentSize
	Conditions Conditions // on given frames
	// Magnitudes returns the facts by which magcache skips blocks, for rows with or without an image. It is nil if there are
	// none or the job does not use magcache. The network then uses Rows.Residual.
	Magnitudes func(image bool) *MagRatios
}

// Guided reports whether a row has an unguided branch.
func (d *Description) Guided(row *schemas.PromptRow) bool {
	return row.Guided() && !(d.UnguidedTo1 && row.Guidance() < 1)
}

// TextLength returns the largest number of text tokens of a row; with PadsText every text has this length. It is
// max_sequence_length, or TextTokens if the row has none, as in tables of embeddings.
func (d *Description) TextLength(row *schemas.PromptRow) int {
	if !d.PadsText || row.MaxSequenceLength == 0 {
		return d.TextTokens
	}
	return row.MaxSequenceLength
}

// Conditions says how a network takes given frames.
type Conditions struct {
	// Marked says that Instant.Generated may mark given frames.
	Marked bool
	// Align is the number of latent frames in one group of the autoencoder. The starts of given frames are moved to a multiple
	// of it; 0 leaves them.
	Align int
	// Input says how the network takes the image of the stage encode_image.
	Input ImageInput
	// Images says that references are separate inputs of the network; nil: they follow the row's mask strategy.
	Images *Images
	// Group is set if the clips of a video continue as latents without the autoencoder: the number of latent frames must be a
	// multiple of Group, the frames that the autoencoder decodes together. 0: clips continue through the autoencoder.
	Group int
}

// ImageInput says how a network uses the result of the stage encode_image for a row's references.
type ImageInput int

const (
	// NoImageInput says that the network does not take an image.
	NoImageInput ImageInput = iota
	// FirstFrame says that the latents of the image are the first latent frame and do not change.
	FirstFrame
	// BesideLatents says that the latents of the image cover a whole clip (Element.References). The network takes them as additional
	// channels in the same evaluation.
	BesideLatents
)

// Images says that a row's references are separate inputs of the network.
type Images struct {
	// CondType says which frames of the references are given: one of condition.ImageTypes.
	CondType string
	// Guide says how the sampler guides by the references. Latents and Given are set for each element.
	Guide sampler.Image
}

// LatentSize is the size of latents: frames, rows, columns.
type LatentSize struct{ T, H, W int }

// BatchRow is one row of a network evaluation: an element in one branch of guidance. Branch 0 has the prompt, the others the
// null text. Branch 2 also does not see frames that are given as separate inputs.
type BatchRow struct {
	*stages.Element
	Branch int
}

// Caption returns the text of the row (tokens, TextWidth). Nil means the network's own null text, with the length of the
// prompt.
func (r BatchRow) Caption() *stages.Array {
	if r.Branch > 0 {
		return r.Text.Negative
	}
	return r.Text.Embedding
}

// Rows is the input of Network.Prepare for all steps.
type Rows struct {
	Size LatentSize // of the latents
	Box  LatentSize // see Description.Box
	Rows []BatchRow // all of one size
	// Parts are the columns on this device, as ranges of Rows and of a frame's patches. Patches may extend beyond the frame,
	// into padding.
	Parts []nn.Part
	// Split exchanges with the ranks that have the other columns; nil: this device has all columns.
	Split *nn.Split
	Given *Given
	// Residual stores what the blocks add, for networks with Description.Magnitudes; nil: it is not needed.
	Residual *Residual
}

// Grid returns the size of the latents that the tokens are made of: the box, or Size without a box.
func (r *Rows) Grid() LatentSize { return r.Size.In(r.Box) }

// Modulation returns a function for the i-th row of a modulation (B, T' or 1, R, C), shaped for the tokens x (n, T, W, C) of a
// part.
func (r *Rows) Modulation(part int, mod, x kernels.Tensor) func(i int) kernels.Tensor {
	at := r.Parts[part].Rows
	mod = mod.Narrow(0, at.Start, at.Len)
	return func(i int) kernels.Tensor { return nn.ModulationRow(mod, i, x.Dim(1), x.Dim(2)) }
}

// Real returns the patches of a part that are not padding. area is the number of patches in a frame.
func (r *Rows) Real(part, area int) nn.Span {
	p := r.Parts[part].Patches
	return nn.Span{Start: min(p.Start, area), Len: max(0, min(p.Len, area-p.Start))}
}

// Len returns the number of positions.
func (s LatentSize) Len() int { return s.T * s.H * s.W }

// In returns the size of the box, or s if there is no box.
func (s LatentSize) In(box LatentSize) LatentSize {
	if box == (LatentSize{}) {
		return s
	}
	return box
}

// Given are frames that are separate inputs of the network.
type Given struct {
	Latents []float32 // (C, T, H, W), 0 in frames that are not given
	Frames  []bool    // (T), true if the frame is given
}

// Instant is the input of an evaluation besides the latents.
type Instant struct {
	// Timesteps has the timestep of each row in the training process, 0 to 1000, not rounded to the network's type.
	Timesteps []float32
	// Generated says for each frame of each row (rows x T) whether it is being denoised; nil: all are.
	Generated []bool
}

// Shape returns the shape of latents of a size.
func (d *Description) Shape(size LatentSize) []int { return []int{d.Channels, size.T, size.H, size.W} }

// Outputs returns how many numbers the network outputs for a token.
func (d *Description) Outputs() int { return d.Patch.Size() * d.OutChannels }

// alone returns the parts of a device that has all patches of the rows.
func (d *Description) alone(rows int, size LatentSize) []nn.Part {
	size = size.In(d.Box)
	_, h, w := d.Patch.Grid(size.T, size.H, size.W)
	return []nn.Part{{Rows: nn.Span{Len: rows}, Patches: nn.Span{Len: h * w}}}
}
