package keys

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// Looked is a stage that only measures, in the form in which earlier releases included it in keys of results. job.json stores it.
type Looked struct {
	Before   int              `json:"before"` // number of earlier stages that make results
	Stage    string           `json:"stage"`  // name in keys
	Version  int              `json:"version"`
	Options  string           `json:"options"`
	Weights  string           `json:"weights,omitempty"`
	Params   []stages.Param   `json:"params,omitempty"`
	Measures []stages.Measure `json:"measures"`
	// Program names a program that took and gave the same kind. Earlier releases did not record whether it only measured. It did if
	// the file of a row is the one that the stage before it made.
	Program string `json:"program,omitempty"`
}

// Looks lists the stages of an earlier job that only measure, in order.
type Looks []Looked

// Program names the first program of the list that may have changed its input; "": none.
func (l Looks) Program() string {
	for _, s := range l {
		if s.Program != "" {
			return s.Program
		}
	}
	return ""
}

// Claimed splits the readings of a row. looked holds the readings of the list's measures, by measure ID; left holds the readings of other
// stages. A measure that does not declare its readings gets all readings that nobody else claims.
func (l Looks) Claimed(all map[string]string, others []string) (looked map[string]map[string]string, left map[string]string) {
	looked, left = map[string]map[string]string{}, map[string]string{}
	for name, value := range all {
		left[name] = value
	}
	var unknown *stages.Measure
	for _, s := range l {
		for _, m := range s.Measures {
			if m.Readings == nil {
				unknown = &m
				continue
			}
			looked[m.ID()] = map[string]string{}
			for _, name := range m.Readings {
				if value, read := all[name]; read {
					looked[m.ID()][name] = value
					delete(left, name)
				}
			}
		}
	}
	if unknown != nil {
		looked[unknown.ID()] = map[string]string{}
		for name, value := range left {
			if !slices.Contains(others, name) {
				looked[unknown.ID()][name] = value
				delete(left, name)
			}
		}
	}
	return looked, left
}

// form is a version of the key's content: this job's own, or that of an earlier release.
type form struct {
	prefix []byte         // content that all keys of the job share
	only   []onlyStage    // stages that concern only some rows
	params []stages.Param // parameters that some stage depends on, each once
}

// part is the content of a key that describes one stage.
type part struct {
	name, options, weights string
	version                int
	only                   stages.Param
	params                 []stages.Param
}

// parts returns the stages that make results. Stages that only measure are in no key.
func (r *Rules) parts() (all []part) {
	for _, s := range r.Steps {
		if s.MeasuresOnly || s.Spec.Passive {
			continue
		}
		all = append(all, part{s.KeyName(), string(s.Options), s.Digest(), s.Spec.Version, s.Spec.Only, s.Params()})
	}
	return all
}

// insertLooks inserts the looking stages of an earlier job among the stages that make results. A stage that the job already has, with the
// same options, stays where it is.
func insertLooks(parts []part, looks Looks) (all []part) {
	own := func(l Looked) bool { return slices.ContainsFunc(parts, func(p part) bool { return p.matches(l) }) }
	made := 0
	insert := func() {
		for _, l := range looks {
			if l.Before == made && !own(l) {
				all = append(all, part{l.Stage, l.Options, l.Weights, l.Version, "", l.Params})
			}
		}
	}
	for _, p := range parts {
		if !slices.ContainsFunc(looks, p.matches) {
			insert()
			made++
		}
		all = append(all, p)
	}
	insert()
	return all
}

// matches reports whether the part is the same stage as l, with the same options, weights and version.
func (p part) matches(l Looked) bool {
	return p.name == l.Stage && p.options == l.Options && p.weights == l.Weights && p.version == l.Version
}

// form computes the content that all keys of the job share.
func (r *Rules) form(parts []part) (f form, err error) {
	b := AppendText(nil, "latentbeam", "key/1", "input", string(r.Input), "class", r.Class)
	if r.Input == stages.KindVideo { // the job only measures: a row is a video and its prompt
		f.params = []stages.Param{stages.ParamMedia, stages.ParamPrompt}
	}
	depend := func(p part) error {
		for _, param := range p.params {
			if _, own := param.Column(); !own && !slices.Contains(knownParams, param) {
				return fmt.Errorf("stage %s depends on %q, which no prompt row has", p.name, param)
			}
			if !slices.Contains(f.params, param) {
				f.params = append(f.params, param)
			}
		}
		return nil
	}
	for _, p := range parts {
		text := AppendText(nil, "stage", p.name, "version", strconv.Itoa(p.version), "options", p.options, "weights", p.weights)
		switch {
		case p.only == "":
			b = append(b, text...)
			if err := depend(p); err != nil {
				return f, err
			}
		case !laterParam(p.only):
			return f, fmt.Errorf("stage %s concerns rows with %q, which every row has", p.name, p.only)
		default:
			f.only = append(f.only, onlyStage{p.only, text})
		}
	}
	for _, p := range parts { // after the others, so that their order does not change
		if p.only == "" {
			continue
		}
		if err := depend(p); err != nil {
			return f, err
		}
	}
	sum := sha256.Sum256(b)
	f.prefix = sum[:]
	return f, nil
}

// key returns the key of an element in a form.
func (r *Rules) key(f *form, e *stages.Element) (schemas.Key, error) {
	var space [1024]byte // most prompts fit
	b := append(space[:0], f.prefix...)
	if r.Input == stages.KindText || r.Input == stages.KindLatents {
		b = append(b, e.Origin[:]...)
	}
	for _, o := range f.only {
		switch v, err := r.laterValue(&e.Row, o.param); {
		case err != nil:
			return schemas.Key{}, err
		case v != "":
			b = append(b, o.text...)
		}
	}
	b, err := r.appendParams(b, &e.Row, f.params)
	return sha256.Sum256(b), err
}

// appendParams appends a row's values of parameters.
func (r *Rules) appendParams(b []byte, row *schemas.PromptRow, params []stages.Param) ([]byte, error) {
	for _, p := range params {
		if laterParam(p) {
			v, err := r.laterValue(row, p)
			if err != nil {
				return b, err
			}
			if v != "" {
				b = AppendText(b, string(p), v)
			}
			continue
		}
		b = AppendText(b, string(p))
		b = appendSized(b, func(b []byte) []byte { return appendParam(b, row, p) })
	}
	return b, nil
}

// resolve sets the element's key to the first of its forms that the output has a record of. If the output has none, the key of this job's
// own form stays.
func (r *Rules) resolve(e *stages.Element) error {
	if r.Known == nil || len(r.earlier) == 0 {
		return nil
	}
	if known, err := r.Known(e.Key, e, 0); known || err != nil {
		return err
	}
	for i := range r.earlier {
		key, err := r.key(&r.earlier[i], e)
		if err != nil {
			return err
		}
		known, err := r.Known(key, e, i+1)
		if err != nil {
			return err
		}
		if known {
			e.Key, e.Form = key, i+1
			return nil
		}
	}
	return nil
}

// Looks returns the looking stages in an element's key form; nil for this job's own form.
func (r *Rules) Looks(e *stages.Element) Looks {
	if e.Form < 1 || e.Form > len(r.Earlier) {
		return nil
	}
	return r.Earlier[e.Form-1]
}

// mediaParams are the parameters that decide, beside the content, what a stage sees of media.
var mediaParams = []stages.Param{stages.ParamMedia, stages.ParamCut, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames, stages.ParamFPS}

// Reading returns the key of a measure's reading of an element. video is the digest of the video that is measured; "": the row's media
// are measured.
func (r *Rules) Reading(m stages.Measure, e *stages.Element, video string) (key schemas.Key, err error) {
	b := AppendText(nil, "latentbeam", "reading/1", "class", r.Class, "measure", m.Name, "version", strconv.Itoa(m.Version), "options",
		m.Options, "weights", m.Weights, "video", video)
	if video == "" {
		if b, err = r.appendParams(b, &e.Row, mediaParams); err != nil {
			return key, err
		}
	}
	b, err = r.appendParams(b, &e.Row, m.Params)
	return sha256.Sum256(b), err
}
