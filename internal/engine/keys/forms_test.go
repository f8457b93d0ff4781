package keys

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// looking is a stage that only measures.
func looking(name, options string) stages.Step {
	return stages.Step{Name: name, Options: json.RawMessage(options), MeasuresOnly: true, Stage: weightsOnly{digest: "ee"},
		Spec: stages.Spec{Name: name, Version: 3, MeasuresOnly: true, Params: []stages.Param{stages.ParamMedia}}}
}

func lookedAs(s stages.Step, before int) Looked {
	return Looked{Before: before, Stage: s.Name, Version: s.Spec.Version, Options: string(s.Options), Weights: s.Digest(), Params: s.Spec.Params}
}

// TestFormsOfKeys: a stage that only measures is in no key; and a row that an earlier release has done with such stages in its key, wherever
// they stood, is found by their list, in the first list that has it.
func TestFormsOfKeys(t *testing.T) {
	row := schemas.PromptRow{Prompt: "a"}
	plain := goldenRules(t).keyOf(t, row)
	a, b := looking("see", `{"by":1}`), looking("exec", `{"command":["x"]}`)
	before := goldenRules(t) // as an earlier release had it
	for i, s := range []stages.Step{a, b} {
		s.MeasuresOnly = false
		before.Steps = slices.Insert(before.Steps, 1+2*i, s)
	}
	was := before.keyOf(t, row)
	if was == plain {
		t.Fatal("the stages were in no key")
	}
	now := goldenRules(t)
	now.Steps = slices.Insert(now.Steps, 2, looking("other", `{}`))
	if now.keyOf(t, row) != plain {
		t.Error("a stage that only measures is in the key")
	}
	asked := 0
	has := func(keys ...string) func(schemas.Key, *stages.Element, int) (bool, error) {
		return func(k schemas.Key, _ *stages.Element, _ int) (bool, error) {
			asked++
			return slices.Contains(keys, k.String()), nil
		}
	}
	lists := []Looks{{lookedAs(a, 1)}, {lookedAs(a, 1), lookedAs(b, 2)}, {lookedAs(b, 2), lookedAs(a, 1)}}
	for _, c := range []struct {
		there []string
		want  string
		form  int
	}{{nil, plain, 0}, {[]string{plain, was}, plain, 0}, {[]string{was}, was, 2}} {
		r := *now
		r.Earlier, r.Known = lists, has(c.there...)
		if err := r.Seal(); err != nil {
			t.Fatal(err)
		}
		e := &stages.Element{Row: row}
		if err := r.Apply(e); err != nil || e.Key.String() != c.want || e.Form != c.form {
			t.Errorf("of %v: %v in form %d (%v), want %s in %d", c.there, e.Key, e.Form, err, c.want, c.form)
		}
		if again, err := r.Key(e); err != nil || again != e.Key {
			t.Errorf("the key of form %d is %v, and then %v (%v)", e.Form, e.Key, again, err)
		}
	}
	kept := *now
	b.MeasuresOnly = false // the job has the program still, which is in its keys
	kept.Steps = slices.Insert(slices.Clone(kept.Steps), 3, b)
	kept.Earlier, kept.Known = lists[1:2], has(was)
	if err := kept.Seal(); err != nil {
		t.Fatal(err)
	}
	e := &stages.Element{Row: row}
	if err := kept.Apply(e); err != nil || e.Key.String() != was {
		t.Errorf("beside a stage of the list that the job has: %v (%v), want %s", e.Key, err, was)
	}
	if asked == 0 {
		t.Error("the output was not asked")
	}
}

// TestReadingKeys: each of what a reading depends on gives another key, and nothing else does.
func TestReadingKeys(t *testing.T) {
	seen := map[schemas.Key]string{}
	m := stages.Measure{Name: "motion", Version: 1}
	note := func(what string, m stages.Measure, class, video string, row schemas.PromptRow, fresh bool) {
		t.Helper()
		r := goldenRules(t)
		r.Class = class
		if err := r.Seal(); err != nil {
			t.Fatal(err)
		}
		k, err := r.Reading(m, &stages.Element{Row: row}, video)
		if err != nil {
			t.Fatal(err)
		}
		if before, is := seen[k]; is == fresh {
			t.Errorf("%s: the key is that of %q", what, before)
		}
		seen[k] = what
	}
	note("nothing", m, "go", "ab", schemas.PromptRow{}, true)
	note("the row", m, "go", "ab", schemas.PromptRow{Prompt: "x", Height: 3}, false)
	note("names of readings", stages.Measure{Name: "motion", Version: 1, Readings: []string{"a"}}, "go", "ab", schemas.PromptRow{}, false)
	note("class", m, "avx", "ab", schemas.PromptRow{}, true)
	note("video", m, "go", "cd", schemas.PromptRow{}, true)
	note("media", m, "go", "", schemas.PromptRow{}, true)
	note("size of media", m, "go", "", schemas.PromptRow{Height: 3}, true)
	note("cut of media", m, "go", "", schemas.PromptRow{Cut: &schemas.Cut{Start: 1}}, true)
	note("version", stages.Measure{Name: "motion", Version: 2}, "go", "ab", schemas.PromptRow{}, true)
	note("options", stages.Measure{Name: "motion", Version: 1, Options: "1"}, "go", "ab", schemas.PromptRow{}, true)
	note("weights", stages.Measure{Name: "motion", Version: 1, Weights: "w"}, "go", "ab", schemas.PromptRow{}, true)
	of := stages.Measure{Name: "motion", Version: 1, Params: []stages.Param{stages.ParamPrompt}}
	note("prompt", of, "go", "ab", schemas.PromptRow{Prompt: "x"}, true)
	note("another prompt", of, "go", "ab", schemas.PromptRow{Prompt: "y"}, true)
}

// TestClaimed: readings that an earlier release put into results are told apart by the measures that took them.
func TestClaimed(t *testing.T) {
	known, unknown := stages.Measure{Name: "a", Readings: []string{"motion", "cuts"}}, stages.Measure{Name: "exec"}
	list := Looks{{Measures: []stages.Measure{unknown}}, {Measures: []stages.Measure{known}}}
	looked, left := list.Claimed(map[string]string{"motion": "1", "clip": "2", "prompt": "p"}, []string{"prompt"})
	if !maps.Equal(looked[known.ID()], map[string]string{"motion": "1"}) || !maps.Equal(looked[unknown.ID()], map[string]string{"clip": "2"}) ||
		!maps.Equal(left, map[string]string{"prompt": "p"}) {
		t.Errorf("%v, left %v", looked, left)
	}
}
