package t5

import (
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// TestTemplates: prompts become the texts that the scripts of Open-Sora-Plan give to the tokenizer. Negative prompts are
// cleaned, but not put into the template.
func TestTemplates(t *testing.T) {
	seen := map[string]bool{templateNone: true}
	for name, data := range nntest.Golden(t, "testdata/templates.json") {
		var want struct {
			Pairs    [][2]string
			Negative [2]string
		}
		nntest.Decode(t, data, &want)
		wrapping, known := templates[name]
		seen[name] = true
		if !known || len(want.Pairs) == 0 {
			t.Fatalf("%s is no template, or has no prompts", name)
		}
		clean := wrapping.cleaner(Config{ModelType: modelMT5}.variant())
		for _, pair := range want.Pairs {
			if got := clean(wrapping.wrap(pair[0])); got != pair[1] {
				t.Errorf("%s: %q becomes %q, want %q", name, pair[0], got, pair[1])
			}
		}
		if got := clean(want.Negative[0]); got != want.Negative[1] {
			t.Errorf("%s: the negative prompt becomes %q, want %q", name, got, want.Negative[1])
		}
	}
	for name := range templates {
		if !seen[name] {
			t.Errorf("%s has no golden", name)
		}
	}
}

// TestTemplateOf: the option overrides the model; without it the model's class and version decide.
func TestTemplateOf(t *testing.T) {
	plan := stages.Index{ClassName: stages.PlanPipeline, Version: stages.Plan12}
	newer := stages.Index{ClassName: stages.PlanPipeline, Version: stages.Plan13}
	for _, c := range []struct {
		option string
		index  stages.Index
		want   string
	}{
		{"", stages.Index{}, "none"}, {"", stages.Index{ClassName: "OpenSoraPipeline", Version: "1.2"}, "none"}, {"", plan, "osp12-single"},
		{"", newer, "osp13"}, {"osp12-multi", newer, "osp12-multi"}, {"none", plan, "none"}, {"osp14", plan, ""},
	} {
		got, err := templateOf(c.option, c.index)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q of %+v is %q, %v, want %q", c.option, c.index, got, err, c.want)
		}
	}
	if style, err := scoreStyle("", plan); err != nil || style != scoresNone {
		t.Errorf("Open-Sora-Plan reads scores %s, %v", style, err)
	}
}
