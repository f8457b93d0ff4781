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

// Rules turn a row as it was read into an element that is ready to be computed: defaults filled in,
// parameters checked by every stage, and the key. They are pure, so that the plan, the run and the
// tables agree on every row.
type Rules struct {
	Defaults schemas.PromptRow // what the job and the model say where the row is silent
	// OneScale says that the job gives no guidance_scale_2, so that a row's own guidance_scale holds for both denoisers. The
	// published pair is for rows without a scale.
	OneScale bool
	Naming   *schemas.Naming // how names of sizes are read
	JobSeed  int64           // rows without a seed get one derived from it and the prompt
	Shard    int             // this run takes the keys whose number modulo Shards is Shard
	Shards   int             // 0 and 1: all
	Input    stages.Kind
	Steps    []stages.Step
	Class    string // numeric class of the devices
	// IDs are the ids that media files have in the output, by key. A row whose id is a path that ends in its earlier id keeps
	// the earlier one.
	IDs map[schemas.Key]string
	// Contents are the digests of media that are known already; nil: none are.
	Contents *source.Contents

	// Earlier are the stages that only look as earlier releases had them in keys: of this job, and of those that the output has rows
	// of. Known says whether the output has a row under a key of the form number form: 0 is the job's own. Nil: the output is not
	// asked.
	Earlier []Looks
	Known   func(key schemas.Key, e *stages.Element, form int) (bool, error)

	// Made by Seal:
	own     form
	earlier []form // of Earlier

	references *references
}

// Seal fixes what all keys of the job have in common. It fails for a stage that depends on a parameter
// that no row has.
func (r *Rules) Seal() error {
	parts := r.parts()
	var err error
	if r.own, err = r.form(parts); err != nil {
		return err
	}
	r.earlier = nil
	for _, looks := range r.Earlier {
		f, err := r.form(with(parts, looks))
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

// onlyStage is what a stage adds to the keys of the rows that it concerns.
type onlyStage struct {
	param stages.Param
	text  []byte
}

// knownParams are those that appendParam writes.
var knownParams = []stages.Param{
	stages.ParamPrompt, stages.ParamNegativePrompt, stages.ParamMaxSequenceLength, stages.ParamSeed,
	stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames, stages.ParamFPS, stages.ParamSteps,
	stages.ParamGuidanceScale, stages.ParamAes, stages.ParamFlow, stages.ParamCameraMotion, stages.ParamReference,
	stages.ParamMaskStrategy, stages.ParamLoop, stages.ParamConditionFrameLength, stages.ParamConditionFrameEdit,
	stages.ParamMedia, stages.ParamGuidanceScale2, stages.ParamNoise, stages.ParamCut, stages.ParamTextLength,
}

// paramNames are the names of the parameters that rows have, with spaces between them.
func paramNames() string {
	return strings.Trim(fmt.Sprint(knownParams), "[]")
}

// Weights names the weights of all stages by content, for the provenance columns.
func (r *Rules) Weights() string {
	var b []byte
	for i, s := range r.Steps {
		if s.Looks {
			continue // it made nothing
		}
		if s.Spec.Only != "" && slices.ContainsFunc(r.Steps, func(o stages.Step) bool {
			return o.Name != r.Steps[i].Name && o.Spec.Only == "" && o.Digest() == s.Digest()
		}) {
			continue // weights of a stage that concerns all rows
		}
		if d := s.Digest(); d != "" {
			b = AppendText(b, s.KeyName(), d)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// Apply fills, checks and keys e. A row that no stage can do comes back failed.
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

// check lets every stage look at the row.
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

// SameLatents refuses a denoiser and an autoencoder that were not made for each other: they have latents of
// different shapes for a row that each can do.
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

// Params are the parameters of a row that its key is made of.
func (r *Rules) Params() []stages.Param { return slices.Clone(r.own.params) }

// Mine reports whether the element belongs to this shard. It goes by key, so that equal rows meet.
func (r *Rules) Mine(e *stages.Element) bool {
	return r.Shards <= 1 || binary.BigEndian.Uint64(e.Key[:8])%uint64(r.Shards) == uint64(r.Shard)
}

// stillFPS is the frame rate of a row of latents that says none and has one frame: a video of a second.
const stillFPS = 1

// fill puts the job's defaults where the row says nothing. What a table of tensors was made with is past
// deciding: where the table does not say it, nothing is said.
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

// Key hashes what the job shares, the content the element was read with, and the parameters that some
// stage of the job depends on.
func (r *Rules) Key(e *stages.Element) (schemas.Key, error) {
	if e.Form > 0 && e.Form <= len(r.earlier) {
		return r.key(&r.earlier[e.Form-1], e)
	}
	return r.key(&r.own, e)
}

// laterValue is what a row says of a later parameter, "" for nothing.
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

// textLength is the length that the text of a row is padded to where it is not the model's own, else "".
func (r *Rules) textLength(row *schemas.PromptRow) string {
	for _, s := range r.Steps {
		if n := s.Capabilities().TextLength; n > 0 && row.MaxSequenceLength > 0 && row.MaxSequenceLength != n {
			return strconv.Itoa(row.MaxSequenceLength)
		}
	}
	return ""
}

// badKey names a row that cannot be computed, by its place and its text. The failures table can name it, and a mended
// row gets a new key.
func (r *Rules) badKey(e *stages.Element) schemas.Key {
	id := fmt.Sprint(e.Row.ID, "/", e.Row.SampleIndex)
	return sha256.Sum256(AppendText(slices.Clone(r.own.prefix),
		"source", e.Row.Source, "id", id, "prompt", e.Row.Prompt, "failure", e.Failed.Error()))
}

// appendParam writes a parameter exactly: floats by their bits.
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

// AppendText writes texts with their lengths, so that no two lists share a spelling.
func AppendText(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// appendSized writes what value appends, with its length before it.
func appendSized(b []byte, value func([]byte) []byte) []byte {
	at := len(b)
	b = value(append(b, make([]byte, 8)...))
	binary.LittleEndian.PutUint64(b[at:], uint64(len(b)-at-8))
	return b
}
