package keys

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/source"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/rng"
)

// Rules turn a row of the input into an element that is ready to be computed. They fill in defaults, let
// every stage check the parameters, and compute the key. They are pure, so that the plan, the run and the
// tables agree on every row.
type Rules struct {
	Defaults schemas.PromptRow // values of the job and the model for parameters that the row lacks
	// OneScale is true if the job gives no guidance_scale_2. Then a row's own guidance_scale holds for both denoisers, and a row
	// without a scale gets the two scales that the model publishes.
	OneScale bool
	Naming   *schemas.Naming // what a name of a size means
	JobSeed  int64           // rows without a seed get one derived from it and the prompt
	Shard    int             // this run computes the rows whose key modulo Shards is Shard
	Shards   int             // number of shards; 0 or 1: this run computes all rows
	Input    stages.Kind
	Steps    []stages.Step
	Class    string // numeric class of the devices
	// IDs are the ids of media files in the output, by key. If a row's id is a path that ends in its earlier id, the row retains
	// the earlier one.
	IDs map[schemas.Key]string
	// Contents caches digests of media; nil: Seal makes an empty cache.
	Contents *source.Contents

	// Earlier lists the forms of earlier releases, whose keys include stages that only measure. Known reports whether the output has a row
	// under a key of form number form; 0 is the job's own form, i is Earlier[i-1]. Known nil: only the job's own form is used.
	Earlier []Looks
	Known   func(key schemas.Key, e *stages.Element, form int) (bool, error)

	// Made by Seal:
	own     form
	earlier []form // forms of Earlier

	references *references
}

// Seal computes the content that all keys of the job share. Call it before Apply. It fails for a stage that depends on a
// parameter that no row has.
func (r *Rules) Seal() error {
	parts := r.parts()
	var err error
	if r.own, err = r.form(parts); err != nil {
		return err
	}
	r.earlier = nil
	for _, looks := range r.Earlier {
		f, err := r.form(insertLooks(parts, looks))
		if err != nil {
			return err
		}
		r.earlier = append(r.earlier, f)
	}
	if r.Contents == nil {
		r.Contents = &source.Contents{}
	}
	r.references = &references{r.Contents}
	return nil
}

// onlyStage is a stage that concerns only rows with a parameter, and the text that it adds to their keys.
type onlyStage struct {
	param stages.Param
	text  []byte
}

// knownParams are the parameters that appendParam writes.
var knownParams = []stages.Param{
	stages.ParamPrompt, stages.ParamNegativePrompt, stages.ParamMaxSequenceLength, stages.ParamSeed,
	stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames, stages.ParamFPS, stages.ParamSteps,
	stages.ParamGuidanceScale, stages.ParamAes, stages.ParamFlow, stages.ParamCameraMotion, stages.ParamReference,
	stages.ParamMaskStrategy, stages.ParamLoop, stages.ParamConditionFrameLength, stages.ParamConditionFrameEdit,
	stages.ParamMedia, stages.ParamGuidanceScale2, stages.ParamNoise, stages.ParamCut, stages.ParamTextLength,
}

// paramNames returns the names of all parameters of rows, separated by spaces.
func paramNames() string {
	return strings.Trim(fmt.Sprint(knownParams), "[]")
}

// Weights returns a digest of the weights of all stages, for the provenance columns.
func (r *Rules) Weights() string {
	var b []byte
	for i, s := range r.Steps {
		if s.MeasuresOnly {
			continue // it makes no result
		}
		if s.Spec.Only != "" && slices.ContainsFunc(r.Steps, func(o stages.Step) bool {
			return o.Name != r.Steps[i].Name && o.Spec.Only == "" && o.Digest() == s.Digest()
		}) {
			continue // the same weights are counted for a stage that concerns all rows
		}
		if d := s.Digest(); d != "" {
			b = AppendText(b, s.KeyName(), d)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// Apply fills in defaults of e, checks it and computes its key. If some stage cannot compute the row, Apply marks e as failed.
func (r *Rules) Apply(e *stages.Element) error {
	e.Given = e.Row
	if e.Failed != nil {
		e.Key = r.badKey(e)
		return nil
	}
	if err := r.fill(&e.Row); err != nil {
		e.Fail("read", fault.Row(err))
	}
	if e.Failed == nil {
		r.check(e)
	}
	if e.Failed != nil {
		e.Key = r.badKey(e)
		return nil
	}
	key, err := r.Key(e)
	failure, err := source.RowFailure(err)
	if failure != nil {
		e.Fail("read", failure)
		key = r.badKey(e)
	}
	e.Key = key
	if e.Failed == nil && err == nil {
		err = r.resolve(e)
	}
	if id, kept := r.IDs[e.Key]; kept {
		if own := path.Base(e.Row.ID); own == id || own == id+path.Ext(e.Row.Media) {
			e.Row.ID, e.Given.ID = id, id
		}
	}
	return err
}

// check lets every stage check the row.
func (r *Rules) check(e *stages.Element) {
	row := &e.Row
	texts := [...]struct{ name, text string }{{"prompt", row.Prompt}, {"negative_prompt", row.NegativePrompt}}
	for _, t := range texts {
		if !utf8.ValidString(t.text) {
			e.Fail("read", fault.Row(fmt.Errorf("%s: not valid UTF-8", t.name)))
			return
		}
	}
	stage := ""
	defer func() {
		if p := recover(); p != nil {
			e.Fail(stage, fault.Row(fmt.Errorf("panic: %s", fault.PanicText(p))))
		}
	}()
	for i := range r.Steps {
		stage = r.Steps[i].Name
		if err := r.Steps[i].Check(&e.Row); err != nil {
			e.Fail(stage, fault.Row(err))
			return
		}
	}
	if err := SameLatents(r.Steps, &e.Row); err != nil {
		e.Fail(stage, fault.Row(err))
	}
}

// SameLatents refuses a denoiser and an autoencoder that do not fit each other: for the same row they have latents of
// different shapes.
func SameLatents(steps []stages.Step, row *schemas.PromptRow) error {
	var before stages.LatentShape
	var name string
	for _, s := range steps {
		shape := s.Capabilities().LatentShape
		if shape == nil {
			continue
		}
		if before != nil {
			if err := stages.SameLatents(row, name, before, s.Name, shape); err != nil {
				return err
			}
		}
		before, name = shape, s.Name
	}
	return nil
}

// Params returns the parameters that a row's key includes.
func (r *Rules) Params() []stages.Param { return slices.Clone(r.own.params) }

// Mine reports whether the element belongs to this shard. It depends on the key only, so that equal rows belong to one shard.
func (r *Rules) Mine(e *stages.Element) bool {
	return r.Shards <= 1 || binary.BigEndian.Uint64(e.Key[:8])%uint64(r.Shards) == uint64(r.Shard)
}

// stillFPS is the frame rate of a row of latents with one frame and no frame rate. It gives a video of one second.
const stillFPS = 1

// fill sets missing parameters to the job's defaults. It does not set parameters that were used to make a table of
// tensors: they cannot change any more, and if the table does not give them they stay unknown.
func (r *Rules) fill(row *schemas.PromptRow) (err error) {
	d := r.Defaults
	switch r.Input {
	case stages.KindText:
		d.NegativePrompt, d.MaxSequenceLength = "", 0
	case stages.KindLatents:
		d = schemas.PromptRow{FPS: d.FPS}
	case stages.KindVideo: // nothing is made
		d = schemas.PromptRow{}
	case stages.KindMedia: // nothing is sampled
		d.NumInferenceSteps, d.GuidanceScale = 0, nil
	}
	if r.OneScale && d.GuidanceScale2 != nil {
		row.GuidanceScale2 = cmp.Or(row.GuidanceScale2, row.GuidedScale())
	}
	*row, err = row.WithDefaults(d).Sized(r.Naming)
	if r.Input == stages.KindLatents && row.FPS == 0 && row.NumFrames == 1 {
		row.FPS = stillFPS
	}
	for _, text := range []*string{&row.Aes, &row.Flow, &row.CameraMotion, &row.Reference, &row.MaskStrategy, &row.Noise} {
		if *text == schemas.None {
			*text = ""
		}
	}
	if err == nil && r.Input == stages.KindPrompt {
		for _, s := range r.Steps {
			if complete := s.Capabilities().Complete; complete != nil {
				complete(row)
			}
		}
	}
	if row.Seed == nil {
		seed := rng.SeedFor(r.JobSeed, row.Prompt)
		row.Seed = &seed
	}
	return err
}

// Key hashes the content that all rows of the job share, the tensors that the element was read with, and the parameters
// that some stage of the job depends on.
func (r *Rules) Key(e *stages.Element) (schemas.Key, error) {
	if e.Form > 0 && e.Form <= len(r.earlier) {
		return r.key(&r.earlier[e.Form-1], e)
	}
	return r.key(&r.own, e)
}

// laterValue returns a row's value of a later parameter; "": the row has none.
func (r *Rules) laterValue(row *schemas.PromptRow, p stages.Param) (string, error) {
	switch p {
	case stages.ParamReference:
		return r.references.digest(row.Reference, row.HDR)
	case stages.ParamMedia:
		return r.references.media(row.Media, row.HDR)
	case stages.ParamNoise:
		return r.references.noise(row.Noise)
	case stages.ParamTextLength:
		return r.textLength(row), nil
	}
	if name, own := p.Column(); own {
		value, has := row.Column(name)
		if has {
			return string(value), nil
		}
		hint := "write null where a row has no value"
		if near := config.Near(name, strings.Split(paramNames(), " ")); near != "" {
			hint = "did you mean " + near + "? The stages of the job say it"
		}
		return "", fmt.Errorf("params: a stage depends on the column %q, which the row does not have; %s", name, hint)
	}
	v := laterValue(row, p)
	if p == stages.ParamLoop && v != "" {
		for _, s := range r.Steps {
			if digest := s.Capabilities().LoopDigest; digest != nil {
				v += "/" + digest()
			}
		}
	}
	return v, nil
}

// textLength returns the length to which a row's text is padded if it differs from the model's, else "".
func (r *Rules) textLength(row *schemas.PromptRow) string {
	for _, s := range r.Steps {
		if n := s.Capabilities().TextLength; n > 0 && row.MaxSequenceLength > 0 && row.MaxSequenceLength != n {
			return strconv.Itoa(row.MaxSequenceLength)
		}
	}
	return ""
}

// badKey returns the key of a row that cannot be computed. It covers the row's place, prompt and error, so that the
// failures table has a key for the row and a corrected row gets a new one.
func (r *Rules) badKey(e *stages.Element) schemas.Key {
	id := fmt.Sprint(e.Row.ID, "/", e.Row.SampleIndex)
	return sha256.Sum256(AppendText(slices.Clone(r.own.prefix),
		"source", e.Row.Source, "id", id, "prompt", e.Row.Prompt, "failure", e.Failed.Error()))
}

// appendParam appends the exact value of a parameter. It writes a float as the hexadecimal number of its bits.
func appendParam(b []byte, row *schemas.PromptRow, p stages.Param) []byte {
	number := func(v int) []byte { return strconv.AppendInt(b, int64(v), 10) }
	bits := func(v float64) []byte { return strconv.AppendUint(b, math.Float64bits(v), 16) }
	switch p {
	case stages.ParamPrompt:
		return append(b, row.Prompt...)
	case stages.ParamNegativePrompt:
		return append(b, row.NegativePrompt...)
	case stages.ParamMaxSequenceLength:
		return number(row.MaxSequenceLength)
	case stages.ParamSeed:
		b = strconv.AppendInt(b, *row.Seed, 10)
		return strconv.AppendInt(append(b, '/'), int64(row.SampleIndex), 10)
	case stages.ParamHeight:
		return number(row.Height)
	case stages.ParamWidth:
		return number(row.Width)
	case stages.ParamNumFrames:
		return number(row.NumFrames)
	case stages.ParamFPS:
		return bits(row.FPS)
	case stages.ParamSteps:
		return number(row.NumInferenceSteps)
	case stages.ParamGuidanceScale:
		return bits(row.Guidance())
	}
	return b // Seal has refused all others
}

// AppendText appends texts, each with its length, so that no two lists give the same bytes.
func AppendText(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// appendSized appends the length of the bytes that value appends, then the bytes.
func appendSized(b []byte, value func([]byte) []byte) []byte {
	at := len(b)
	b = value(append(b, make([]byte, 8)...))
	binary.LittleEndian.PutUint64(b[at:], uint64(len(b)-at-8))
	return b
}
