package keys

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// Looked is a stage that only looks, as earlier releases had it in the keys of results. job.json has them.
type Looked struct {
	Before   int              `json:"before"` // how many stages that make results stand before it
	Stage    string           `json:"stage"`  // name in keys
	Version  int              `json:"version"`
	Options  string           `json:"options"`
	Weights  string           `json:"weights,omitempty"`
	Params   []stages.Param   `json:"params,omitempty"`
	Measures []stages.Measure `json:"measures"`
	// Program is that of a program which took and gave the same. Whether it only looked, nobody knew before: it is in the list if
	// the file of a row is the one that the stage before it made.
	Program string `json:"program,omitempty"`
}

// Looks are the stages that only look of an earlier job, in order.
type Looks []Looked

// Program names the first program of the list that nobody has said to be looking only, "" for none.
func (l Looks) Program() string {
	for _, s := range l {
		if s.Program != "" {
			return s.Program
		}
	}
	return ""
}

// Claimed returns what the measures of the list read off a row, by their IDs, and the readings that are left: of other stages, whose
// names are others. A measure whose readings nobody knows has all that no other has.
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

// form is a way in which the keys of a job's rows are made.
type form struct {
	prefix []byte         // what all keys of the job share
	only   []onlyStage    // stages that concern some rows
	params []stages.Param // what some stage depends on, each once
}

// part is a stage as keys have it.
type part struct {
	name, options, weights string
	version                int
	only                   stages.Param
	params                 []stages.Param
}

// parts are the stages that make results. Those that only look are in no key.
func (r *Rules) parts() (all []part) {
	for _, s := range r.Steps {
		if s.Looks || s.Spec.Passive {
			continue
		}
		all = append(all, part{s.KeyName(), string(s.Options), s.Digest(), s.Spec.Version, s.Spec.Only, s.Params()})
	}
	return all
}

// with puts the stages of an earlier job that only looked between those that make results. What the job has itself, as it is, stays where
// it is.
func with(parts []part, looks Looks) (all []part) {
	own := func(l Looked) bool { return slices.ContainsFunc(parts, func(p part) bool { return p.is(l) }) }
	made := 0
	insert := func() {
		for _, l := range looks {
			if l.Before == made && !own(l) {
				all = append(all, part{l.Stage, l.Options, l.Weights, l.Version, "", l.Params})
			}
		}
	}
	for _, p := range parts {
		if !slices.ContainsFunc(looks, p.is) {
			insert()
			made++
		}
		all = append(all, p)
	}
	insert()
	return all
}

// is reports whether the part is a stage as an earlier job had it.
func (p part) is(l Looked) bool {
	return p.name == l.Stage && p.options == l.Options && p.weights == l.Weights && p.version == l.Version
}

// form fixes what all keys of the job have in common.
func (r *Rules) form(parts []part) (f form, err error) {
	b := AppendText(nil, "latentbeam", "key/1", "input", string(r.Input), "class", r.Class)
	if r.Input == stages.KindVideo { // only looked at: a row is a video and its prompt
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
	for _, p := range parts { // behind the others, whose order stays
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

// key is that of an element in a form.
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

// appendParams writes what a row says of parameters.
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

// resolve gives the element the first of its keys that the output has, this job's own where it has none.
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

// Looks returns the list of an element's form, nil for this job's own.
func (r *Rules) Looks(e *stages.Element) Looks {
	if e.Form < 1 || e.Form > len(r.Earlier) {
		return nil
	}
	return r.Earlier[e.Form-1]
}

// mediaParams are what media look like to a stage beside their content.
var mediaParams = []stages.Param{stages.ParamMedia, stages.ParamCut, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames, stages.ParamFPS}

// Reading is the key of what a measure reads off an element: off the video of that digest, or off the row's media for "".
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
