package stages

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
)

// Capabilities says what a stage can do beyond its other methods. A field that is left out means that the stage
// cannot. A plain stage returns Capabilities{}. Which fields are set stays the same as long as the stage is open;
// what can change meanwhile is a function.
type Capabilities struct {
	// Params are further columns that the result depends on. The opened model decides them, so Spec.Params cannot
	// list them. They join Spec.Params in the keys.
	Params []Param
	// Published returns the parameters that the model was published with. They hold where neither the row nor the job
	// nor the model's index says otherwise.
	Published func() schemas.PromptRow
	// Complete fills in what a row leaves open and what its other values decide, such as the negative prompt of a row
	// under guidance. It comes behind all defaults, for rows that are encoded in this job.
	Complete func(row *schemas.PromptRow)
	// Naming is how the family of the model reads names of sizes and lengths; nil: it has no opinion.
	Naming *schemas.Naming
	// TextLength is the length that texts are padded to unless a row says max_sequence_length, 0 where padding does not matter.
	// A stage that has it depends on ParamTextLength.
	TextLength int
	// Remark is what a dry run says of rows like this one beside their shape, "" for nothing; nil: never anything.
	Remark func(row *schemas.PromptRow) string
	// CutTokens returns how many tokens of the row's prompt lie beyond max_sequence_length, so that the stage leaves them out.
	CutTokens func(row *schemas.PromptRow) int
	// LatentShape returns the shape (C, T, H, W) of the latents of one clip of the row, for which Check has passed. A
	// stage has it that makes, takes or conditions on latents: a denoiser and an autoencoder that were not made for
	// each other are told by it.
	LatentShape LatentShape
	// LatentSpace describes the latents of the stage's autoencoder for readers of tables; nil: nothing is said.
	LatentSpace func() LatentSpace
	// TakesRaw is that the stage takes Element.RawLatents where an element has no Latents.
	TakesRaw bool
	// LoopDigest names by content what weights the results of rows with several clips depend on beside the stage's own;
	// it joins the keys of such rows.
	LoopDigest func() string
	// Cost returns the weights and the work of one element like row, and how a set of devices can share it, so that a
	// layout of the devices can be chosen. Name and Need are the caller's to fill in. `plan` prints it and `run` uses it.
	Cost func(row *schemas.PromptRow) (cost.Estimate, error)
	// Spread is how a set of devices shares a batch; nil: each batch is for one device.
	Spread *Spread
	// Loading is how weights come to devices; nil: the stage has none there.
	Loading *Loading
	// MaxBatch is the most elements of a batch; 0: as many as fit in memory.
	MaxBatch int
	// Group returns the most elements of a batch of rows like this one that are of use together; nil: any number is.
	Group func(row *schemas.PromptRow) int
	// Together is how many elements like row are worth waiting for each other, because the stage goes over weights once for
	// all of them and its results are small: batches of one shape that wait for devices are taken together up to that, where
	// memory allows it, and no more are begun meanwhile than others need. Nil: each batch goes as it is.
	Together func(row *schemas.PromptRow) int
	// Reads are readings that stages before it have to give, see Spec.Readings.
	Reads []string
	// Measures are what a stage reads that only looks (Spec.Looks): it takes those that the element lacks (Element.Lacks).
	Measures []Measure
	// Limits bound the readings of rows: those beyond are left out.
	Limits Limits
	// Alike says which rows the tables leave out because they look like earlier ones; nil: none.
	Alike *Alike
	// Varies says that a row may have another result when it is computed again. So no result can be checked by a second one.
	Varies bool
	// Ready says what this host lacks for the stage to run, such as a program; nil: it is asked for nothing, or nothing
	// lacks. A run asks before its first row; whoever only looks at a job goes on without it.
	Ready func() error
	// Log returns the file that gets what the programs of the stage print, "" for none. dir is a directory of the run for it,
	// where the job names no file; "": there is none. It is asked before the first row. Nil: the stage has no programs.
	Log func(dir string) string
	// Close gives back what the stage holds beyond memory, such as processes. It is called once, when no element comes
	// any more; nil: there is nothing.
	Close func()
}

// Alike finds rows that look like an earlier row of the input: those whose Reading, hexadecimal words of 64 bits with dashes
// between them, differs from the earlier one in at most Distance bits of each word.
type Alike struct {
	Reading  string
	Distance int
}

// The types of latents in tables.
const (
	Float32  = "float32"
	BFloat16 = "bfloat16"
)

// LatentSpace describes the latents of a table.
type LatentSpace struct {
	// Mean and Std are those of each channel of the autoencoder's own latents: latent = (own - Mean) / Std. Both are empty
	// where they are not known.
	Mean, Std []float64
	Posterior string // mean or sample; "" for latents that nothing was encoded to
	DType     string // Float32, also "", or BFloat16
	Digest    string // of the autoencoder's weights
}

// Spread is how a set of devices shares a batch. Both functions are there.
type Spread struct {
	// Least is the fewest devices that the stage runs on, after a failure too; 0: one.
	Least int
	// Width returns how many devices a batch of rows like this one is to have; 0: as many as are of use.
	Width func(row *schemas.PromptRow) int
	// Run is Stage.Run on a set. The result is the same, byte for byte, whatever the set. Rank 0 gets it.
	Run func(ctx context.Context, set *Set, batch []*Element) error
}

// Loading is how the weights of a stage come to devices and lie there.
type Loading struct {
	// Load brings all weights to the device's memory, once however often it is called, so that a checkpoint that does
	// not fit is known before the first row. It is always there.
	Load func(dev kernels.Backend) error

	// Shards returns how many devices together hold the weights, 1 where each holds all; it may change in Hold. Where
	// it is more, a set has a multiple of it. A stage has it, together with LoadShard, only if it has Spread.
	Shards func() int
	// LoadShard brings one of that many parts of the weights to a device, as Load does with all.
	LoadShard func(dev kernels.Backend, shard int) error
	// Hold says how the weights are to lie in memory: cut over devices, or passing through. It is called before any are
	// loaded.
	Hold func(h cost.Held) error

	// Staying returns how many blocks stay in the memory of a device, and how many there are; the others pass through.
	Staying func() (stay, of int)
	// Stream lets no more than the first so many blocks stay, while a job runs too. Every device goes over to that at
	// its next use. It is there if Staying is.
	Stream func(stay int)
}

// Shards returns how many devices together hold the weights, 1 where each holds all.
func (c Capabilities) Shards() int {
	if c.Loading == nil || c.Loading.Shards == nil {
		return 1
	}
	return max(1, c.Loading.Shards())
}

// NamingOf returns how a job with these steps reads names of sizes and lengths: as its denoiser does, else as the first
// stage that has an opinion; nil: none has.
func NamingOf(steps []Step) (naming *schemas.Naming) {
	for _, s := range steps {
		n := s.Capabilities().Naming
		if n != nil && s.Gives == KindLatents && s.Spec.In != KindMedia {
			return n
		}
		if naming == nil {
			naming = n
		}
	}
	return naming
}
