package t5

import (
	"strings"

	"latentbeam/stages"
	"latentbeam/stages/t5/clean"
)

// wrapping is the text that Open-Sora-Plan's scripts put around a prompt, and how they clean the result.
type wrapping struct {
	before, after string
	clean         func(prompt string) string // nil: clean as the variant of the encoder does
}

// The names of templates. The scripts of version 1.2 wrap a prompt differently on one GPU and on several.
const (
	template12Single = "osp12-single" // sample_t2v.py
	template12Multi  = "osp12-multi"  // sample_t2v_ddp.py and sample_t2v_sp.py
	template13       = "osp13"        // sample.py of version 1.3
	templateNone     = "none"
)

// templates are the published templates, with the line breaks and the indentation of their literals.
var templates = map[string]wrapping{
	template12Single: {"\n    (masterpiece), (best quality), (ultra-detailed), \n    ", ". \n    ", clean.PlanCaption},
	template12Multi: {"\n    (masterpiece), (best quality), (ultra-detailed), (unwatermarked), \n    ",
		". \n    emotional, harmonious, vignette, 4k epic detailed, shot on kodak, 35mm photo, \n    " +
			"sharp focus, high budget, cinemascope, moody, epic, gorgeous\n    ", clean.PlanCaption},
	template13:   {"\n    high quality, high aesthetic, ", "\n    ", strings.Clone},
	templateNone: {},
}

// templateOf returns the name of the template for an option. "" selects the model's template.
func templateOf(option string, index stages.Index) (string, error) {
	if _, ok := templates[option]; ok {
		return option, nil
	}
	switch {
	case option != "":
		return "", stages.Errorf("prompt_template", "encode_text: prompt_template is %q: give osp12-single, osp12-multi, osp13 "+
			"or none", option)
	case index.ClassName == stages.PlanPipeline && index.Version == stages.Plan12:
		return template12Single, nil
	case index.ClassName == stages.PlanPipeline:
		return template13, nil
	}
	return templateNone, nil
}

// wrap puts the template around a prompt. As in the scripts, white space at the ends of the prompt is removed first.
func (t wrapping) wrap(prompt string) string {
	if t.before == "" {
		return prompt
	}
	return t.before + strings.TrimSpace(prompt) + t.after
}

// cleaner returns the function that cleans prompts.
func (t wrapping) cleaner(of variant) func(string) string {
	if t.clean != nil {
		return t.clean
	}
	return of.clean
}
