package stages

import (
	"context"
	"strings"

	"latentbeam/kernels"
	"latentbeam/schemas"
)

// Stage is one step of a job, ready to run: a model with its weights, or a plain function. One Stage serves all devices of a
// process. Its methods must be safe for concurrent use.
type Stage interface {
	// Digest returns a digest of the weights, or the version of the external program that does the work; "" if the stage has
	// neither. It is part of the keys.
	Digest() string
	// Check returns an error if the stage cannot process row, before anything is computed. The text names the parameter, its
	// value and the possible values.
	Check(row *schemas.PromptRow) error
	// Need estimates the device memory in bytes for one batch of n elements like row, without weights.
	Need(row *schemas.PromptRow, n int) (int64, error)
	// Run processes a batch: every element gets the kind that the stage gives. The returned error concerns the whole batch; its
	// class decides what the job does next (see schemas/fault). An error of one element is recorded with Element.Fail instead.
	// Results must not depend on the grouping into batches. After an error or a panic Run may be called again with the same
	// elements, so it must not modify in place what their fields point to.
	Run(ctx context.Context, dev kernels.Backend, batch []*Element) error
	// Capabilities says what else the stage can do. A plain stage returns Capabilities{}.
	Capabilities() Capabilities
}

// Spec describes a stage that a job can name. stages/catalog has the list of all.
type Spec struct {
	Name    string // as written in the YAML, such as "encode_text"
	Doc     string // one line for `latentbeam stages`
	In, Out Kind   // In "": takes any kind and gives the same kind
	Version int    // raised whenever equal inputs may give other bytes; part of the keys
	// Params are the columns of the prompt table that the result depends on.
	Params []Param
	// Only names a parameter without which the stage does nothing for a row; the keys of a row without it do not contain the
	// stage. It must be a parameter of later versions. "": the stage processes all rows.
	Only Param
	// Passive stages (a guard) do not change results and are not part of the keys.
	Passive bool
	// MeasuresOnly says that the stage only measures its input, by Element.AddReadings, and passes it on unchanged. Its readings can be
	// computed later from the published result. So, if the result is available later (see Step.MeasuresOnly), the stage is in no key.
	// Its measures are in Capabilities.
	MeasuresOnly bool
	// Readings are the names of the stage's readings of an element. A program of the job may have others.
	Readings []string
	// Approximations are the options whose results are not those of the exact computation, with their losses.
	Approximations []Approximation
	// Program returns the external program that the stage's options name. Workers and `retry` refuse to run it unless that was
	// allowed. Nil: the stage runs no program of the job.
	Program func(options Options) (Program, error)
	// Of returns the spec for one entry of a job, for stages whose options decide what they take, give and depend on. Such a
	// stage may be in a job more than once, each time with another value of the option `name`. Nil: this spec is used for all
	// entries.
	Of func(options Options) (Spec, error)
	// New opens the stage. It reads the model's configuration and maps its weights into memory.
	New func(m *Model, options Options) (Stage, error)
}

// Program is an external program that a job names.
type Program struct {
	Command []string // the program and its arguments
	Workers int      // the largest number of processes at a time; 0: one for each device
	// Sets lists the options by which a job controls more than the command: the environment, and files that are written.
	Sets []string
}

// Options decodes the stage's YAML map into target. It is strict: an unknown or mistyped key is an error with its line. A nil
// Options leaves target unchanged.
type Options func(target any) error

// Into decodes the options into target.
func (o Options) Into(target any) error {
	if o == nil {
		return nil
	}
	return o(target)
}

// Param is a column of the prompt table that a result can depend on.
type Param string

// ownColumn is the prefix of parameters that are the user's own columns.
const ownColumn = "column "

// ColumnParam returns the parameter for a user's own column, which PromptRow.Extra carries. It enters a key only if the row has
// the column.
func ColumnParam(name string) Param { return Param(ownColumn + name) }

// Column returns the name of the user's own column, if the parameter is one.
func (p Param) Column() (name string, own bool) { return strings.CutPrefix(string(p), ownColumn) }

// The parameters. Their values are the names of the fields.
const (
	ParamPrompt            Param = "prompt"
	ParamNegativePrompt    Param = "negative_prompt"
	ParamMaxSequenceLength Param = "max_sequence_length"
	ParamSeed              Param = "seed"  // with the sample index
	ParamMedia             Param = "media" // the content of the file
	ParamHeight            Param = "height"
	ParamWidth             Param = "width"
	ParamNumFrames         Param = "num_frames"
	ParamFPS               Param = "fps"
	ParamSteps             Param = "num_inference_steps"
	ParamGuidanceScale     Param = "guidance_scale"
)

// Parameters of later versions. They enter a key only if the row has them, so that the keys of other rows stay the same.
const (
	ParamAes                  Param = "aes"
	ParamFlow                 Param = "flow"
	ParamCameraMotion         Param = "camera_motion"
	ParamReference            Param = "reference" // by content
	ParamMaskStrategy         Param = "mask_strategy"
	ParamLoop                 Param = "loop"
	ParamConditionFrameLength Param = "condition_frame_length"
	ParamConditionFrameEdit   Param = "condition_frame_edit"
	// ParamTextLength is max_sequence_length, for denoisers that attend to padding, if the length is not the denoiser's own.
	ParamTextLength     Param = "text_length"
	ParamGuidanceScale2 Param = "guidance_scale_2"
	ParamNoise          Param = "noise" // by content
	ParamCut            Param = "cut"   // the part of the media
)
