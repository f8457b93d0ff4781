package keys

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// weightsOnly is a stage of which only the digest of its weights is asked for.
type weightsOnly struct {
	stages.Stage
	digest string
	text   int // Capabilities.TextLength
}

func (s weightsOnly) Digest() string { return s.digest }
func (s weightsOnly) Capabilities() stages.Capabilities {
	return stages.Capabilities{TextLength: s.text}
}

// Check refuses a height of 13, so that a test has a row that cannot be done.
func (s weightsOnly) Check(row *schemas.PromptRow) error {
	if row.Height == 13 {
		return errors.New("height is 13: give another")
	}
	return nil
}

// goldenRules depend on every parameter.
func goldenRules(t *testing.T) *Rules {
	t.Helper()
	spec := func(name string, params ...stages.Param) stages.Spec {
		return stages.Spec{Name: name, Version: 1, Params: params}
	}
	guidance := 4.0
	r := &Rules{Input: stages.KindPrompt, Class: "cpu/test", JobSeed: 42,
		Defaults: schemas.PromptRow{Height: 64, Width: 64, NumFrames: 16, FPS: 8, NumInferenceSteps: 50,
			GuidanceScale: &guidance, MaxSequenceLength: 120},
		Steps: []stages.Step{
			{Name: "encode", Spec: spec("encode", stages.ParamPrompt, stages.ParamNegativePrompt,
				stages.ParamMaxSequenceLength), Options: json.RawMessage(`{"clean":true}`),
				Stage: weightsOnly{digest: "aa"}},
			{Name: "denoise", Spec: spec("denoise", stages.ParamSeed, stages.ParamHeight, stages.ParamWidth,
				stages.ParamNumFrames, stages.ParamSteps, stages.ParamGuidanceScale, stages.ParamPrompt),
				Options: json.RawMessage(`{}`), Stage: weightsOnly{digest: "bb"}},
			{Name: "write", Spec: spec("write", stages.ParamFPS), Options: json.RawMessage(`{}`), Stage: weightsOnly{}},
		}}
	return r
}

func (r *Rules) keyOf(t *testing.T, row schemas.PromptRow) string {
	t.Helper()
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	e := &stages.Element{Row: row}
	r.Apply(e)
	if e.Failed != nil {
		t.Fatal(e.Failed)
	}
	return e.Key.String()
}

// TestOnlyStage: a stage that concerns rows with a later parameter is in their keys alone, wherever it stands.
func TestOnlyStage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.png")
	if err := os.WriteFile(file, []byte("picture"), 0o644); err != nil {
		t.Fatal(err)
	}
	plain, with := schemas.PromptRow{Prompt: "a ball"}, schemas.PromptRow{Prompt: "a ball", Reference: file}
	before := goldenRules(t).keyOf(t, plain)
	rules := func(digest string, only stages.Param) *Rules {
		r := goldenRules(t)
		r.Steps = slices.Insert(r.Steps, 1, stages.Step{Name: "image", Options: json.RawMessage(`{}`),
			Spec:  stages.Spec{Name: "image", Params: []stages.Param{stages.ParamReference, stages.ParamWidth}, Only: only},
			Stage: weightsOnly{digest: digest}})
		return r
	}
	if got := rules("cc", stages.ParamReference).keyOf(t, plain); got != before {
		t.Errorf("a row without the parameter has the key %s, without the stage %s", got, before)
	}
	if got := rules("cc", "").keyOf(t, plain); got == before {
		t.Error("a stage that concerns all rows is in no key")
	}
	one, other := rules("cc", stages.ParamReference).keyOf(t, with), rules("dd", stages.ParamReference).keyOf(t, with)
	if one == other || one == before {
		t.Errorf("rows with the parameter have the keys %s and %s", one, other)
	}
	if err := rules("cc", stages.ParamPrompt).Seal(); err == nil || !strings.Contains(err.Error(), "which every row has") {
		t.Errorf("a parameter of all rows: %v", err)
	}
	same, weights := rules("aa", stages.ParamReference), goldenRules(t).Weights()
	if same.Weights() != weights || rules("cc", stages.ParamReference).Weights() == weights {
		t.Error("the weights are named once, by those that concern all rows")
	}
}

// TestGoldenKeys: a key is what names results in every output there is. If this fails, all users compute
// everything again: raise the version in Seal and say so.
func TestGoldenKeys(t *testing.T) {
	seed, guidance := int64(7), 1.5
	full := schemas.PromptRow{Prompt: "日本", NegativePrompt: "dark", Seed: &seed, Height: 32, Width: 48,
		NumFrames: 1,
		FPS:       23.976, NumInferenceSteps: 3, GuidanceScale: &guidance, MaxSequenceLength: 9, SampleIndex: 2}
	for want, row := range map[string]schemas.PromptRow{
		"39d28e3253b49331845762fa815f881f589ba1578f3ecce9fdc88c727ce289e6": {Prompt: "a red circle moves left"},
		"e53a91a88ab1b00b4532f247fb231fb4703fb268cf828a32ca0df20523b65412": {},
		"e32fb34704fa47caae42f8d77c4d2699daed4c48bdc605b6ce8b4e6627177535": full,
	} {
		if got := goldenRules(t).keyOf(t, row); got != want {
			t.Errorf("key of %+v is %s, want %s", row, got, want)
		}
	}
}

// TestGoldenKeysOfSources: the same of tensors, of later parameters and of rows that cannot be computed.
func TestGoldenKeysOfSources(t *testing.T) {
	key := func(r *Rules, e *stages.Element) string {
		r.Class = "go"
		if err := r.Seal(); err != nil {
			t.Fatal(err)
		}
		r.Apply(e)
		return e.Key.String()
	}
	tensors := goldenRules(t)
	tensors.Input = stages.KindText
	later := goldenRules(t)
	later.Steps[1].Spec.Params = append(later.Steps[1].Spec.Params, laterParams...)
	edit, reference := 0.25, filepath.Join(t.TempDir(), "a.png")
	if err := os.WriteFile(reference, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		rules      *Rules
		element    stages.Element
	}{
		{"text", "03bc5ffd31c3d6af92ab07154e13d156aa666bfdeaa47103570589362d5eb73e", tensors, stages.Element{Row: schemas.PromptRow{Prompt: "a", Height: 8, Width: 8}, Origin: schemas.Key{1, 2}}},
		{"later", "27a1ed962d99d24e4d0471830e5a2dfae86a486d7eefc1bee7223c3285a45d77", later, stages.Element{Row: schemas.PromptRow{Prompt: "a", Aes: "6.5", Flow: "2", CameraMotion: "pan",
			Loop: 2, ConditionFrameLength: 5, ConditionFrameEdit: &edit, MaskStrategy: "0",
			Reference: reference + ";" + reference}}},
		{"bad", "c24c3d99fdd3f7b8ccde5d335272d2f1b5011fef4cbd39045cacf66bfaf773ff", goldenRules(t), stages.Element{Row: schemas.PromptRow{ID: "7", Prompt: "a", Height: 13, Source: "x.csv:3"}}},
	} {
		if got := key(c.rules, &c.element); got != c.want {
			t.Errorf("the key of %s is %s, want %s", c.name, got, c.want)
		}
	}
}

// TestKeysDependOnWhatMatters: each change gives another key.
func TestKeysDependOnWhatMatters(t *testing.T) {
	seed, guidance := int64(1), 2.0
	rows := map[string]func(*schemas.PromptRow){
		"prompt":              func(r *schemas.PromptRow) { r.Prompt = "b" },
		"negative_prompt":     func(r *schemas.PromptRow) { r.NegativePrompt = "b" },
		"seed":                func(r *schemas.PromptRow) { r.Seed = &seed },
		"sample_index":        func(r *schemas.PromptRow) { r.SampleIndex = 1 },
		"height":              func(r *schemas.PromptRow) { r.Height = 8 },
		"width":               func(r *schemas.PromptRow) { r.Width = 8 },
		"num_frames":          func(r *schemas.PromptRow) { r.NumFrames = 8 },
		"fps":                 func(r *schemas.PromptRow) { r.FPS = 9 },
		"num_inference_steps": func(r *schemas.PromptRow) { r.NumInferenceSteps = 8 },
		"guidance_scale":      func(r *schemas.PromptRow) { r.GuidanceScale = &guidance },
		"max_sequence_length": func(r *schemas.PromptRow) { r.MaxSequenceLength = 8 },
	}
	rules := map[string]func(*Rules){
		"class":         func(r *Rules) { r.Class = "cpu/other" },
		"input":         func(r *Rules) { r.Input = stages.KindText },
		"job seed":      func(r *Rules) { r.JobSeed = 1 },
		"default":       func(r *Rules) { r.Defaults.NumFrames = 9 },
		"options":       func(r *Rules) { r.Steps[1].Options = json.RawMessage(`{"a":1}`) },
		"weights":       func(r *Rules) { r.Steps[1].Stage = weightsOnly{digest: "cc"} },
		"version":       func(r *Rules) { r.Steps[2].Spec.Version = 2 },
		"stage name":    func(r *Rules) { r.Steps[2].Name = "write2" },
		"a stage less":  func(r *Rules) { r.Steps = r.Steps[:2] },
		"another order": func(r *Rules) { r.Steps[0], r.Steps[1] = r.Steps[1], r.Steps[0] },
	}
	seen := map[string]string{goldenRules(t).keyOf(t, schemas.PromptRow{Prompt: "a"}): "nothing"}
	note := func(what, key string) {
		if other, ok := seen[key]; ok {
			t.Errorf("%s gives the key of %s", what, other)
		}
		seen[key] = what
	}
	for what, change := range rows {
		row := schemas.PromptRow{Prompt: "a"}
		change(&row)
		note(what, goldenRules(t).keyOf(t, row))
	}
	for what, change := range rules {
		r := goldenRules(t)
		change(r)
		note(what, r.keyOf(t, schemas.PromptRow{Prompt: "a"}))
	}
}

// TestKeysDependOnNothingElse: these changes leave the key as it is.
func TestKeysDependOnNothingElse(t *testing.T) {
	want := goldenRules(t).keyOf(t, schemas.PromptRow{Prompt: "a"})
	guidance, row := 4.0, schemas.PromptRow{Prompt: "a"}
	row.ID, row.Extra, row.Source, row.NumVideosPerPrompt = "id", `{"a":1}`, "x.csv:3", 5
	if goldenRules(t).keyOf(t, row) != want {
		t.Error("the key depends on where the row stands or what is carried with it")
	}
	said := schemas.PromptRow{Prompt: "a", Height: 64, Width: 64, NumFrames: 16, FPS: 8, NumInferenceSteps: 50,
		GuidanceScale: &guidance, MaxSequenceLength: 120}
	if goldenRules(t).keyOf(t, said) != want {
		t.Error("the key depends on whether a row says what holds anyway")
	}
	r := goldenRules(t)
	guard := stages.Step{Name: "guard", Spec: stages.Spec{Name: "guard", Version: 3, Passive: true,
		Params: []stages.Param{stages.ParamFPS}}, Options: json.RawMessage(`{"reject":["black"]}`),
		Stage: weightsOnly{digest: "zz"}}
	r.Steps = slices.Insert(r.Steps, 1, guard)
	if r.keyOf(t, schemas.PromptRow{Prompt: "a"}) != want {
		t.Error("the key depends on a guard")
	}
	r = goldenRules(t)
	r.Steps = r.Steps[:2]
	r.Steps[1].Spec.Params = nil
	base := r.keyOf(t, schemas.PromptRow{Prompt: "a"})
	seed := int64(3)
	if r.keyOf(t, schemas.PromptRow{Prompt: "a", Seed: &seed, Height: 8, FPS: 3, SampleIndex: 4}) != base {
		t.Error("the key depends on parameters that no stage uses")
	}
}

// TestKeysOfSources: what a row of tensors was read with is part of its key; a row that cannot be done has a
// key of its own, which says where it stands and why.
func TestKeysOfSources(t *testing.T) {
	r := goldenRules(t)
	r.Input = stages.KindText
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	key := func(origin byte, source string, height int) (string, bool) {
		e := &stages.Element{Row: schemas.PromptRow{Prompt: "a", Source: source, Height: height}}
		e.Origin[0] = origin
		r.Apply(e)
		return e.Key.String(), e.Failed != nil
	}
	a, _ := key(1, "x:1", 8)
	b, _ := key(2, "x:1", 8)
	c, _ := key(1, "x:2", 8)
	if a == b || a != c {
		t.Error("a key must go by what was read, and not by where it stood")
	}
	d, failed := key(1, "x:1", 13)
	e, failedToo := key(1, "x:2", 13)
	if !failed || !failedToo || d == e {
		t.Errorf("rows that cannot be done: %v %s, %v %s", failed, d, failedToo, e)
	}
}

// TestRowsThatNoStageCanSee: what a stage cannot look at without a panic, and what is no text, is a failed
// row and not a dead job.
func TestRowsThatNoStageCanSee(t *testing.T) {
	r := goldenRules(t)
	r.Steps[1].Stage = panicking{}
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	for prompt, want := range map[string]string{
		"a": "denoise: panic: index out of range", "\xff": "read: prompt: not valid UTF-8",
	} {
		e := &stages.Element{Row: schemas.PromptRow{Prompt: prompt}}
		r.Apply(e)
		if e.Failed == nil || e.Failed.Error() != want {
			t.Errorf("%q: %v, want %s", prompt, e.Failed, want)
		}
	}
}

type panicking struct{ weightsOnly }

func (panicking) Check(*schemas.PromptRow) error { panic("index out of range") }

// TestShards: every key is one shard's.
func TestShards(t *testing.T) {
	count := map[int]int{}
	for i := range 300 {
		r := goldenRules(t)
		e := &stages.Element{Row: schemas.PromptRow{Prompt: strings.Repeat("x", i)}}
		if err := r.Seal(); err != nil {
			t.Fatal(err)
		}
		r.Apply(e)
		r.Shards = 3
		mine := 0
		for r.Shard = range r.Shards {
			if r.Mine(e) {
				mine++
				count[r.Shard]++
			}
		}
		if mine != 1 {
			t.Fatalf("%d shards claim a row", mine)
		}
	}
	for shard := range 3 {
		if count[shard] < 70 || count[shard] > 130 {
			t.Errorf("shard %d has %d of 300 rows", shard, count[shard])
		}
	}
}

// TestSealRefusesUnknownParameters of a stage that somebody wrote.
func TestSealRefusesUnknownParameters(t *testing.T) {
	r := goldenRules(t)
	r.Steps[2].Spec.Params = []stages.Param{"colour"}
	if err := r.Seal(); err == nil || !strings.Contains(err.Error(), `stage write depends on "colour"`) {
		t.Errorf("got %v", err)
	}
}
