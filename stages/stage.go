package stages

import (
	"context"
	"strings"

	"latentbeam/kernels"
	"latentbeam/schemas"
)

// Stage is one step of a job, ready to run: a model with its weights, or a plain function. One Stage
// serves all devices of a process and must allow concurrent calls.
type Stage interface {
	// Digest names the weights by content, or the version of another program that does the work; "" for a stage
	// that has neither. It enters the keys.
	Digest() string
	// Check reports why this stage cannot do row, before anything is computed; the text names the
	// parameter, its value and what is possible.
	Check(row *schemas.PromptRow) error
	// Need estimates the device memory of one batch of n elements like row, in bytes, without weights.
	Need(row *schemas.PromptRow, n int) (int64, error)
	// Run takes every element of the batch from the kind the stage takes to the kind it gives. An error
	// concerns the whole batch (its class decides what follows, see schemas/fault); what is wrong with
	// one element goes into that element by Fail. Results are the same for any grouping into batches. After
	// an error or a panic the elements are given again, as they were: what fields point at is not changed
	// in place.
	Run(ctx context.Context, dev kernels.Backend, batch []*Element) error
	// Capabilities says what the stage can do beyond that: Capabilities{} for a plain one.
	Capabilities() Capabilities
}

// Spec describes a stage that a job can name. The list of all is stages/catalog.
type Spec struct {
	Name    string // as written in the YAML, such as "encode_text"
	Doc     string // one line for `latentbeam stages`
	In, Out Kind   // "" for In: takes any kind and gives the same
	Version int    // raised whenever equal inputs may give other bytes; part of the keys
	// Params are the columns of the prompt table that the result depends on.
	Params []Param
	// Only is the later parameter without which the stage leaves a row alone: then it is in none of the row's keys. "": the
	// stage concerns all rows.
	Only Param
	// Passive stages (a guard) do not change results and stay out of the keys.
	Passive bool
	// Looks is that the stage only reads off what it takes, by Element.Look, and passes it on as it is. Such a stage is in no
	// result's key where what it looks at can be had later, see Step.Looks. It names its measures in Capabilities.
	Looks bool
	// Readings are the names of what the stage reads off an element; a program of the job may have others.
	Readings []string
	// Program returns the program that the options of a stage name: a worker and `retry` refuse it unless they were allowed
	// to run it. Nil: the stage runs no program of the job.
	Program func(options Options) (Program, error)
	// Of returns the spec of one entry of a job where the options decide what the stage takes, gives and depends on.
	// Such a stage may be in a job more than once, each time with another option `name`. Nil: this spec holds for all.
	Of func(options Options) (Spec, error)
	// New opens the stage. It reads the model's configuration and maps its weights.
	New func(m *Model, options Options) (Stage, error)
}

// Program is a program that a job names.
type Program struct {
	Command []string // the program and its arguments
	Workers int      // most of them at a time; 0: one for each device
	// Sets are the options by which the job decides more than the command: its environment, and files that are written.
	Sets []string
}

// Options decodes the stage's map in the YAML into target strictly: an unknown or mistyped key is an
// error with its line. A nil Options leaves target as it is.
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

// ownColumn begins the parameters that are columns of the user's own.
const ownColumn = "column "

// ColumnParam is the parameter for a column of the user's own, which PromptRow.Extra carries. It enters a key only where
// a row has it.
func ColumnParam(name string) Param { return Param(ownColumn + name) }

// Column returns the name of the user's own column that the parameter is, if it is one.
func (p Param) Column() (name string, own bool) { return strings.CutPrefix(string(p), ownColumn) }

// The parameters, by the field's names.
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

// Parameters that came later. They enter a key only where a row has them, so that the keys of other rows stay.
const (
	ParamAes                  Param = "aes"
	ParamFlow                 Param = "flow"
	ParamCameraMotion         Param = "camera_motion"
	ParamReference            Param = "reference" // by content
	ParamMaskStrategy         Param = "mask_strategy"
	ParamLoop                 Param = "loop"
	ParamConditionFrameLength Param = "condition_frame_length"
	ParamConditionFrameEdit   Param = "condition_frame_edit"
	// ParamTextLength is max_sequence_length where a denoiser attends to padding and the length is not its own.
	ParamTextLength     Param = "text_length"
	ParamGuidanceScale2 Param = "guidance_scale_2"
	ParamNoise          Param = "noise" // by content
	ParamCut            Param = "cut"   // the part of the media
)
