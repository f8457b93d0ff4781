package stages

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
)

// Capabilities says what a stage can do beyond its other methods. A nil or zero field means that the stage cannot do it; a
// plain stage returns Capabilities{}. Which fields are set does not change while the stage is open. What a function returns may
// change.
type Capabilities struct {
	// Params are further columns that the result depends on. They join Spec.Params in the keys. They are here and not in Spec
	// because they are known only once the model is open.
	Params []Param
	// Published returns the parameters that the model was published with. They are used if neither the row, nor the job, nor
	// the model's index sets a value.
	Published func() schemas.PromptRow
	// Complete sets values that the row leaves open and that follow from its other values, such as the negative prompt of a row
	// with guidance. It runs after all defaults, for rows that are encoded in this job.
	Complete func(row *schemas.PromptRow)
	// Naming says how the model's family reads names of sizes and lengths; nil: the stage does not decide it.
	Naming *schemas.Naming
	// TextLength is the length that texts are padded to if a row has no max_sequence_length; 0: padding does not matter. A
	// stage with a TextLength depends on ParamTextLength.
	TextLength int
	// Remark returns a remark that a dry run prints beside the shape of rows like this one, "" for none. It may be nil.
	Remark func(row *schemas.PromptRow) string
	// CutTokens returns the number of tokens that the stage cuts from the row's prompt because of max_sequence_length.
	CutTokens func(row *schemas.PromptRow) int
	// LatentShape returns the shape (C, T, H, W) of the latents of one clip of a row that has passed Check. Every stage that
	// makes, takes or conditions on latents has it. The job compares them to find a denoiser and an autoencoder that do not fit
	// together.
	LatentShape LatentShape
	// LatentSpace describes the latents of the stage's autoencoder for readers of tables; nil: the stage does not say it.
	LatentSpace func() LatentSpace
	// TakesRaw says that the stage accepts Element.RawLatents from an element without Latents.
	TakesRaw bool
	// LoopDigest returns a digest of further weights that rows of several clips depend on, beside the stage's own. It joins the
	// keys of such rows.
	LoopDigest func() string
	// Cost returns the weights and the work of one element like row, and how a set of devices can share it. The scheduler uses
	// it to choose a layout of the devices, and `plan` prints it. The caller sets Name and Need.
	Cost func(row *schemas.PromptRow) (cost.Estimate, error)
	// Spread says how a set of devices shares a batch; nil: each batch needs one device.
	Spread *Spread
	// Loading says how weights are loaded to devices; nil: the stage has no weights on devices.
	Loading *Loading
	// MaxBatch is the largest number of elements of a batch; 0: limited by memory only.
	MaxBatch int
	// Group returns the number of elements above which a larger batch of rows like this one gains nothing; nil: there is no such
	// number.
	Group func(row *schemas.PromptRow) int
	// Together returns the batch size up to which waiting pays: the stage reads its weights once per batch, and its results are
	// small. Batches of one shape that wait for devices are merged up to this size if memory allows it, and no more batches of
	// the stage start than later stages need. Nil: batches are never merged.
	Together func(row *schemas.PromptRow) int
	// Reads lists the readings that earlier stages must give, see Spec.Readings.
	Reads []string
	// Measures lists the measures of a stage that only measures (Spec.MeasuresOnly). It computes those that the element lacks
	// (Element.Lacks).
	Measures []Measure
	// Limits bound the readings of rows. Rows outside of the limits are dropped.
	Limits Limits
	// Alike says which rows the tables leave out because they look like an earlier row; nil: none.
	Alike *Alike
	// Varies says that the result of a row may differ when it is computed again. So `verify` cannot check results by computing
	// them again.
	Varies bool
	// Ready returns an error if this host lacks something that the stage needs to run, such as a program. It may be nil. A run
	// calls it before its first row; commands that do not run the job ignore the error.
	Ready func() error
	// Log returns the path of the file that receives the output of the stage's programs, "" for none. dir is the run's
	// directory for logs, used if the job names no file; it may be "". Log is called before the first row. Nil: the stage has
	// no programs.
	Log func(dir string) string
	// Close releases what the stage holds besides memory, such as processes. It is called once, after the last element. It may
	// be nil.
	Close func()
}

// Alike finds rows that look like an earlier row of the input. Reading is the name of a reading with hexadecimal 64-bit words,
// separated by dashes. Two rows look alike if each word differs in at most Distance bits.
type Alike struct {
	Reading  string
	Distance int
}

// The values of LatentSpace.DType: the types of latents in tables.
const (
	Float32  = "float32"
	BFloat16 = "bfloat16"
)

// LatentSpace describes the latents of a table.
type LatentSpace struct {
	// Mean and Std have one value for each channel of the autoencoder's own latents: latent = (own - Mean) / Std. Both are
	// empty if they are not known.
	Mean, Std []float64
	Posterior string // mean or sample; "" for latents that nothing was encoded to
	DType     string // Float32, also "", or BFloat16
	Digest    string // of the autoencoder's weights
}

// Spread says how a set of devices shares a batch. Width and Run are never nil.
type Spread struct {
	// Least is the smallest number of devices that the stage can run on, also after a device failed; 0 means 1.
	Least int
	// Width returns the number of devices that a batch of rows like this one should get; 0: as many as are useful.
	Width func(row *schemas.PromptRow) int
	// Run is Stage.Run on a set of devices. Rank 0 gets the result. It has the same bytes for every set.
	Run func(ctx context.Context, set *Set, batch []*Element) error
}

// Loading says how the weights of a stage are loaded to devices and held there.
type Loading struct {
	// Load loads all weights to the device's memory; further calls do nothing. It is called before the first row, so that a
	// checkpoint that does not fit is found early. It is never nil.
	Load func(dev kernels.Backend) error

	// Shards returns the number of devices that hold the weights together, 1 if each device holds all. Hold may change it. If
	// it is more than 1, the size of a set is a multiple of it. Only stages with Spread have Shards and LoadShard.
	Shards func() int
	// LoadShard loads one of the parts of the weights to a device. Apart from that it works like Load.
	LoadShard func(dev kernels.Backend, shard int) error
	// Hold sets how the weights are held in memory: split over devices, or streamed block by block. It is called before weights
	// are loaded.
	Hold func(h cost.Placement) error

	// Staying returns the number of blocks that stay in a device's memory, and the number of all blocks. The others are
	// streamed.
	Staying func() (stay, of int)
	// Stream limits the blocks that stay in memory to the first stay ones. It may be called while a job runs: every device
	// follows at its next use. It is non-nil if Staying is.
	Stream func(stay int)
}

// Shards returns the number of devices that hold the weights together, 1 if each device holds all.
func (c Capabilities) Shards() int {
	if c.Loading == nil || c.Loading.Shards == nil {
		return 1
	}
	return max(1, c.Loading.Shards())
}

// NamingOf returns how a job with these steps reads names of sizes and lengths. Its denoiser decides; without a denoiser, the
// first stage with a Naming decides. The result is nil if no stage has one.
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
