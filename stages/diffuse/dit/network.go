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
	// Describe returns what the stage must know of the network; it is always the same.
	Describe() Description
	// LatentSize returns the size of the latents of one clip of the row.
	LatentSize(row *schemas.PromptRow) LatentSize
	// Check reports why the network cannot do the row; the text names the parameter, its value and what is possible.
	// What any network is asked (guidance, steps, conditions) the stage checks itself.
	Check(row *schemas.PromptRow) error
	// Load reads the weights, by the names and shapes that w is asked for: all of them, the part of one rank
	// (weight.Weights.Cut and Stage), or their shapes alone (weight.ShapesOnly).
	Load(w *weights.Weights) (Model, error)
}

// Model is a network with its weights on a device. It is read-only and may serve any backend of that device.
type Model interface {
	// Prepare brings the texts and conditions of rows to the device, and computes what all steps share, in the scope
	// open at the call. It is also called to measure memory and work: on a backend that keeps shapes alone, with rows that
	// stand for others (their texts are zeros).
	Prepare(be kernels.Backend, rows *Rows) (Batch, error)
}

// Batch is some rows of the forward on one device, prepared. Their tokens lie in parts (Rows.Parts), each a video of
// its own (n, T', W, C): n rows, all T' frames of them, W patches of each frame, C = Description.Hidden.
type Batch interface {
	// Embed writes the tokens x of a part, given by its number, that begin with the patch vectors
	// (n, T', W, c pt ph pw) of the latents. It is called where the first blocks are.
	Embed(part int, x, vectors kernels.Tensor)
	// Advance takes the tokens xs of all parts through the blocks that this rank has, in place. With last it returns
	// the output (n, T', W, pt ph pw c_out) of every part. Ranks of a set call it together (Rows.Split).
	Advance(xs []kernels.Tensor, at Instant, last bool) ([]kernels.Tensor, error)
}

// Description is what the stage must know of a network.
type Description struct {
	Name        string        // for messages, such as "Open-Sora 1.2"
	Channels    int           // of the latents
	OutChannels int           // of the prediction: Channels, or twice as many where it also holds the variance
	Patch       nn.Patch      // latent positions of a token
	Hidden      int           // numbers of a token in the blocks
	Heads       int           // of the attention that a set shares
	Blocks      int           // runs of layers that a pipeline can be cut between
	Sums        int           // layers of a block whose sums tensor parallelism cuts; 0: none, and tp_size is refused
	Full        bool          // attention is over all tokens of a video (nn.SelfAttention.AddFull), not inside frames
	Scored      float64       // with Full: part of the pairs of tokens that is scored, on average over the blocks; 0: all
	DType       kernels.DType // of weights and activations
	TextWidth   int           // numbers of a token of text
	TextTokens  int           // most tokens of a text
	// PadsText says that the network attends to padding: texts have the length of TextLength.
	PadsText bool
	// UnguidedTo1 says that rows with a guidance_scale up to 1 have no unguided branch, as in diffusers. Else only those of
	// exactly 1 have none.
	UnguidedTo1 bool

	Options   Options           // those that concern any network, as the job gave them
	Recipe    sampler.Recipe    // how it is sampled
	Params    []stages.Param    // that results depend on beside those of Spec
	Published schemas.PromptRow // parameters that it was published with
	Naming    *schemas.Naming   // how its family reads names of sizes and lengths
	// Boundary is the timestep from which on the first of two denoisers computes; the second one, transformer_2 of the
	// model, computes the steps below it. 0: there is one.
	Boundary float32
	// NoNegative is the negative prompt of rows under guidance that have none. schemas.None stands for the empty text;
	// "" leaves such rows to the network's own null text.
	NoNegative  string
	LatentScale float64 // what its latents were multiplied by after the autoencoder
	// Box is the size of latents in whose first corner those of every row lie while they are denoised; what is around
	// them is zeros, and the network masks it (Rows.Grid). Latents begin with the noise of their own size and come out in
	// it. The zero value: no box. A network that takes given frames has none.
	Box        LatentSize
	Conditions Conditions // on given frames
	// Magnitudes returns the facts by which the cache magcache leaves blocks out, for rows with or without an image; nil: there are
	// none, or the job has another cache. The network then uses Rows.Residual.
	Magnitudes func(image bool) *MagRatios
}

// Guided reports whether a row has an unguided branch.
func (d *Description) Guided(row *schemas.PromptRow) bool {
	return row.Guided() && !(d.UnguidedTo1 && row.Guidance() < 1)
}

// TextLength returns how many tokens the text of a row may have, and with PadsText has: max_sequence_length, or TextTokens where
// the row has none, as tables of embeddings may.
func (d *Description) TextLength(row *schemas.PromptRow) int {
	if !d.PadsText || row.MaxSequenceLength == 0 {
		return d.TextTokens
	}
	return row.MaxSequenceLength
}

// Conditions is how a network takes given frames.
type Conditions struct {
	// Marked says that Instant.Generated may tell given frames from those that are being denoised.
	Marked bool
	// Align is the latent frames of one group of the autoencoder, to which the starts of given frames are moved; 0
	// leaves them.
	Align int
	// Input is how the network takes the image that the stage encode_image has encoded.
	Input ImageInput
	// Images gives the references of a row by inputs of their own; nil leaves them to the row's mask strategy.
	Images *Images
	// Group says that the clips of a video go on as latents, by a multiple of so many frames: those that the
	// autoencoder decodes together. 0: clips go on through the autoencoder.
	Group int
}

// ImageInput is how a network is conditioned on what the stage encode_image makes of a row's references.
type ImageInput int

const (
	// NoImageInput says that the network takes no such image.
	NoImageInput ImageInput = iota
	// FirstFrame says that the latents of the image are the first latent frame, and stay.
	FirstFrame
	// BesideLatents says that the latents are those of a whole clip. The network takes them beside those that are being denoised
	// (Element.References), in the same forward.
	BesideLatents
)

// Images says that a row's references are given to the network by inputs of their own.
type Images struct {
	// CondType says which frames of the references are given, as one of condition.ImageTypes.
	CondType string
	// Guide is how the sampler guides by them: Latents and Given are each element's own.
	Guide sampler.Image
}

// LatentSize is the size of latents: frames, rows, columns.
type LatentSize struct{ T, H, W int }

// BatchRow is a row of the forward: an element in one branch of guidance. Branch 0 is under its prompt, those behind it under
// its null text; branch 2 does not see frames that are given by inputs of their own.
type BatchRow struct {
	*stages.Element
	Branch int
}

// Caption returns the text of the row, (tokens, TextWidth). A null text that the row does not have is nil: it is the
// network's own, as long as the prompt.
func (r BatchRow) Caption() *stages.Array {
	if r.Branch > 0 {
		return r.Text.Negative
	}
	return r.Text.Embedding
}

// Rows is what a network prepares for all steps.
type Rows struct {
	Size LatentSize // of the latents
	Box  LatentSize // see Description.Box
	Rows []BatchRow // of one size
	// Parts are the columns that this device has, as rows of Rows and patches of a frame. Patches may reach beyond the
	// frame, into padding.
	Parts []nn.Part
	// Split exchanges with the ranks that have the other columns; nil: this device has all.
	Split *nn.Split
	Given *Given
	// Residual keeps what the blocks add, where a network has Description.Magnitudes; nil: nothing is kept.
	Residual *Residual
}

// Grid returns the size of the latents that the tokens are made of: the box, or where there is none Size.
func (r *Rows) Grid() LatentSize { return r.Size.In(r.Box) }

// Modulation returns how to get a row of a modulation (B, T' or 1, R, C) for the tokens x (n, T, W, C) of a part.
func (r *Rows) Modulation(part int, mod, x kernels.Tensor) func(i int) kernels.Tensor {
	at := r.Parts[part].Rows
	mod = mod.Narrow(0, at.Start, at.Len)
	return func(i int) kernels.Tensor { return nn.ModulationRow(mod, i, x.Dim(1), x.Dim(2)) }
}

// Real returns the patches of a part that are no padding; a frame has area of them.
func (r *Rows) Real(part, area int) nn.Span {
	p := r.Parts[part].Patches
	return nn.Span{Start: min(p.Start, area), Len: max(0, min(p.Len, area-p.Start))}
}

// Len is how many positions there are.
func (s LatentSize) Len() int { return s.T * s.H * s.W }

// In returns the size of a box with latents of this size in it.
func (s LatentSize) In(box LatentSize) LatentSize {
	if box == (LatentSize{}) {
		return s
	}
	return box
}

// Given are frames that come in by inputs of their own.
type Given struct {
	Latents []float32 // (C, T, H, W), 0 in the other frames
	Frames  []bool    // (T) which are given
}

// Instant is what an evaluation depends on beside the latents.
type Instant struct {
	// Timesteps are those of the rows, in the training process, 0 to 1000, not rounded to the network's type.
	Timesteps []float32
	// Generated tells for each frame of each row (rows x T) whether it is being denoised; nil: all are.
	Generated []bool
}

// Shape returns the shape of latents of a size.
func (d *Description) Shape(size LatentSize) []int { return []int{d.Channels, size.T, size.H, size.W} }

// Outputs is how many numbers the network gives for a token.
func (d *Description) Outputs() int { return d.Patch.Size() * d.OutChannels }

// alone are the parts of a device that has all patches of so many rows.
func (d *Description) alone(rows int, size LatentSize) []nn.Part {
	size = size.In(d.Box)
	_, h, w := d.Patch.Grid(size.T, size.H, size.W)
	return []nn.Part{{Rows: nn.Span{Len: rows}, Patches: nn.Span{Len: h * w}}}
}
