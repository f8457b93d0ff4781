package models

import (
	"maps"
	"os"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/pipelines"
	"latentbeam/schemas"
)

// TestBuiltInModelFollowsPrompts makes the twelve videos of the demonstration and measures colour, shape and motion in the decoded
// files. At least 11 of 12 must match their prompts in all three; `latentbeam run testdata/prompts/eval.yaml` does the same with 96.
// The same job on three workers writes the same videos and latents.
func TestBuiltInModelFollowsPrompts(t *testing.T) {
	testaid.Long(t, "a minute of sampling")
	t.Chdir("../../..")
	run := func(file string, sets ...string) (pipelines.Result, map[string]string) {
		out := t.TempDir()
		text, err := os.ReadFile(file)
		jobtest.Must(t, err)
		cfg, err := config.Parse(file, string(text), append(sets, "output.path="+out, `output.write=["video", "latents"]`))
		jobtest.Must(t, err)
		result := jobtest.RunConfig(t, cfg)
		digests := map[string]string{}
		for _, row := range jobtest.ReadRows[schemas.LatentRow](t, out, "latents") {
			digests[row.ID] = row.VAELatentSHA256
		}
		for _, row := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
			digests[row.ID] += " " + row.VideoSHA256
		}
		return result, digests
	}
	result, want := run("testdata/prompts/shapes.yaml")
	all := result.Totals.Agreement["all"]
	t.Logf("agreement: %v", result.Totals.Agreement)
	if all.Of != 12 || all.Equal < 11 {
		t.Errorf("%d of %d videos match their prompts, want 11 of 12", all.Equal, all.Of)
	}
	_, got := run("testdata/pipelines/shapes.yaml", "resources.workers=3", "stages.denoise.sequence_parallel=3")
	if len(want) != 12 || !maps.Equal(got, want) {
		t.Errorf("three workers write %v, one worker writes %v", got, want)
	}
}
