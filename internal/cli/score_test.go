package cli

import (
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
)

// TestMeasuresOf: names may be shortened to a unique prefix.
func TestMeasuresOf(t *testing.T) {
	for text, want := range map[string]string{"motion": "motion", "motion,ph": "motion,phash", "motion_": "motion_smoothness", "phash,ph": "phash", "": "", "sc": "scene_cuts"} {
		var names []string
		if text != "" {
			names = strings.Split(text, ",")
		}
		got, err := parseMeasures(names)
		if err != nil || strings.Join(got, ",") != want {
			t.Errorf("%s: got %v, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"none": "there are scene_cuts", "mot": "motion and motion_smoothness begin", "x,": `names "x"`} {
		if _, err := parseMeasures(strings.Split(text, ",")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", text, err, want)
		}
	}
	if _, err := parseWeights([]string{"clip"}); err == nil {
		t.Error("weights without a path gave no error")
	}
}

// TestAddScore: measures are added to the stage score of a job, or to a new stage if the job has none.
func TestAddScore(t *testing.T) {
	for stages, want := range map[string]string{
		"[encode_text]": `{"by":["motion"],"weights":{"w":"p"}}`,
		"[encode_text, {score: {by: [phash], black_level: 3}}]": `{"black_level":3,"by":["phash","motion"],"weights":{"w":"p"}}`,
	} {
		cfg, err := config.Parse("job.yaml", "version: 1\nmodel: tiny\ninput: {prompts: p.csv}\nstages: "+stages+"\noutput: {path: out}\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := addScore(cfg, []string{"motion"}, map[string]string{"w": "p"}); err != nil {
			t.Fatal(err)
		}
		all := slices.Concat(cfg.Stages, cfg.Extra)
		js, err := all[1].Options.MarshalJSON()
		if err != nil || len(all) != 2 || all[1].Name != "score" || string(js) != want {
			t.Errorf("stages %s: got %+v, %s (%v), want %s", stages, all, js, err, want)
		}
	}
}
