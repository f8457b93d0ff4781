package t5

import (
	"latentbeam/stages"
	"strings"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages/nn/nntest"
)

// TestScores compares the scores that are appended to prompts with the reference's own function, in both styles.
func TestScores(t *testing.T) {
	cases := nntest.Golden(t, "../../testdata/golden/scores.json")
	var prompts []string
	nntest.Decode(t, cases["prompts"], &prompts)
	for _, style := range []string{scores12, scores13} {
		var rows []struct {
			Aes, Flow    string
			CameraMotion string `json:"camera_motion"`
			Out          []string
		}
		nntest.Decode(t, cases["v"+style], &rows)
		for _, r := range rows {
			row := &schemas.PromptRow{Aes: r.Aes, Flow: r.Flow, CameraMotion: r.CameraMotion}
			if err := checkScores(style, row); err != nil {
				t.Errorf("%+v: %v", row, err)
			}
			for i, prompt := range prompts {
				if got := withScores(style, prompt, row); got != r.Out[i] {
					t.Errorf("%s: aes %q, flow %q, camera %q behind %q:\n got %q\nwant %q",
						style, r.Aes, r.Flow, r.CameraMotion, prompt, got, r.Out[i])
				}
			}
		}
	}
}

func TestScoreStyles(t *testing.T) {
	for _, c := range []struct{ option, version, want string }{
		{"", "1.0", "none"}, {"", "", "none"}, {"", "1.2", "1.2"}, {"", "1.3", "1.3"}, {"none", "1.3", "none"},
		{"1.3", "1.2", "1.3"}, {"v1.2", "1.2", ""},
	} {
		if got, err := scoreStyle(c.option, stages.Index{ClassName: "OpenSoraPipeline",
			Version: c.version}); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("scores %q of model %q: %q, %v; want %q", c.option, c.version, got, err, c.want)
		}
	}
	row := &schemas.PromptRow{Aes: "good"}
	if err := checkScores(scores12, row); err == nil || !strings.HasPrefix(err.Error(), `aes is "good"`) {
		t.Errorf("a word for Open-Sora 1.2: %v", err)
	}
	if err := checkScores(scoresNone, row); err != nil {
		t.Errorf("a model that reads no scores: %v", err)
	}
	if got := withScores(scoresNone, "a cat", row); got != "a cat" {
		t.Errorf("a model that reads no scores reads %q", got)
	}
}
