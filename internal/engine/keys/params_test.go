package keys

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// laterRules are goldenRules whose denoiser depends on the later parameters too.
func laterRules(t *testing.T) *Rules {
	t.Helper()
	r := goldenRules(t)
	r.Steps[1].Spec.Params = append(r.Steps[1].Spec.Params, laterParams...)
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLaterParameters: each one tells rows apart, and the keys of rows without them are what they were before.
func TestLaterParameters(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, same, other := file("1.png", "x"), file("2.png", "x"), file("3.png", "y")
	edit, none := 0.5, schemas.None
	plain := goldenRules(t).keyOf(t, schemas.PromptRow{Prompt: "a"})
	rows := map[string]schemas.PromptRow{
		"aes": {Aes: "6.5"}, "flow": {Flow: "6.5"}, "camera_motion": {CameraMotion: "6.5"},
		"mask_strategy": {MaskStrategy: "6.5"}, "reference": {Reference: one}, "another": {Reference: other},
		"two": {Reference: one + ";" + other}, "loop": {Loop: 2},
		"length": {Loop: 2, ConditionFrameLength: 5}, "edit": {Loop: 2, ConditionFrameEdit: &edit},
		"second guidance": {GuidanceScale2: &edit}, "noise": {Noise: one}, "other noise": {Noise: other},
	}
	seen := map[string]string{plain: "a plain row"}
	for name, row := range rows {
		row.Prompt = "a"
		key := laterRules(t).keyOf(t, row)
		if was, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, was)
		}
		seen[key] = name
	}
	for name, row := range map[string]schemas.PromptRow{
		"nothing": {}, "one clip": {Loop: 1, ConditionFrameLength: 5, ConditionFrameEdit: &edit}, "none": {Aes: none},
	} {
		row.Prompt = "a"
		if laterRules(t).keyOf(t, row) != plain {
			t.Errorf("%s has a key of its own", name)
		}
	}
	ref := func(path string) string {
		return laterRules(t).keyOf(t, schemas.PromptRow{Prompt: "a", Reference: path})
	}
	if ref(one) != ref(same) {
		t.Error("the key depends on the name of a reference and not on its content")
	}
}

// TestScaleOfTheSecondDenoiser: a guidance scale that the row gives holds for both denoisers, unless it or the job gives the second
// one. Rows without a scale, and without guidance, keep the published second scale and their keys.
func TestScaleOfTheSecondDenoiser(t *testing.T) {
	published := 3.0
	for _, c := range []struct {
		first, second float64 // of the row; -1: not given
		job           bool    // gives guidance_scale_2: 3
		want          float64
	}{
		{-1, -1, false, 3}, {5, -1, false, 5}, {4, -1, false, 4}, {-1, 2, false, 2}, {5, 2, false, 2}, {1, -1, false, 3}, {0.5, -1, false, 3},
		{-1, -1, true, 3}, {5, -1, true, 3}, {5, 0, true, 0},
	} {
		rules := func(one bool) *Rules {
			r := laterRules(t)
			r.Defaults.GuidanceScale2, r.OneScale = &published, one
			return r
		}
		e := &stages.Element{Row: schemas.PromptRow{Prompt: "a"}}
		for v, into := range map[float64]**float64{c.first: &e.Row.GuidanceScale, c.second: &e.Row.GuidanceScale2} {
			if v >= 0 {
				*into = &v
			}
		}
		given := e.Row
		if err := rules(!c.job).Apply(e); err != nil || e.Failed != nil || *e.Row.GuidanceScale2 != c.want {
			t.Errorf("%+v: %v, %v, %v", c, *e.Row.GuidanceScale2, err, e.Failed)
		}
		before := rules(false).keyOf(t, given) == e.Key.String()
		if want := *e.Row.GuidanceScale2 == cmp.Or(max(c.second, 0), 3) || c.job; before != want {
			t.Errorf("%+v: the key that earlier versions gave is kept: %t, want %t", c, before, want)
		}
	}
}

// TestTextLength: max_sequence_length enters a key as the length of padding where a denoiser pads to another one, once more
// beside what the encoder depends on.
func TestTextLength(t *testing.T) {
	rules := func(padded int) *Rules {
		r := laterRules(t)
		r.Steps[1].Stage = weightsOnly{digest: "bb", text: padded}
		return r
	}
	for _, n := range []int{0, 120, 512} {
		row := schemas.PromptRow{Prompt: "a", MaxSequenceLength: n}
		if rules(0).keyOf(t, row) != goldenRules(t).keyOf(t, row) {
			t.Errorf("%d: the key is another where padding does not matter", n)
		}
		if kept := rules(512).keyOf(t, row) == goldenRules(t).keyOf(t, row); kept != (n == 512) {
			t.Errorf("%d: the key is kept: %t", n, kept)
		}
	}
}

// TestBadRows: what a row cannot mean fails the row.
func TestBadRows(t *testing.T) {
	dir := t.TempDir()
	for want, row := range map[string]schemas.PromptRow{
		"no such file":           {Reference: filepath.Join(dir, "none.png")},
		"no address of ftp":      {Reference: "ftp://example.org/a.png"},
		"holds no png or jpeg":   {Reference: dir},
		`resolution "7" is not`:  {Resolution: "7", AspectRatio: "1:1"},
		"resolution is missing:": {AspectRatio: "1:1"},
	} {
		row.Prompt = "a"
		e := &stages.Element{Row: row}
		r := laterRules(t)
		r.Defaults.Height, r.Defaults.Width = 0, 0
		r.Apply(e)
		if e.Failed == nil || !strings.Contains(e.Failed.Error(), want) {
			t.Errorf("%+v: %v, want %q", row, e.Failed, want)
		}
	}
}
