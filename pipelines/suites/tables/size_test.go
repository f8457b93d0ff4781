package tables

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/stages/catalog"
)

// TestIncompleteSize: defaults may have only a resolution or only an aspect ratio. Rows add the other, and a row without it is
// invalid.
func TestIncompleteSize(t *testing.T) {
	prompts := jobtest.WriteTable(t, "p.csv", "prompt,aspect_ratio,resolution\na,1:1,144p\nb,1:1,\nc,,144p\nd,,\n")
	for _, half := range []string{"resolution: 144p", "aspect_ratio: 1:1"} {
		text := fmt.Sprintf("version: 1\nmodel: tiny\ninput: {prompts: %q}\ndefaults: {%s}\n"+
			"stages: [encode_text, denoise]\noutput: {path: %q, write: [latents]}\n",
			prompts, half, filepath.Join(t.TempDir(), "out"))
		cfg, err := config.Parse("job.yaml", text, nil)
		jobtest.Must(t, err)
		job, err := pipelines.Open(cfg, pipelines.Options{Specs: catalog.All(), Version: "test"})
		jobtest.Must(t, err)
		defer job.Close()
		plan, err := job.Plan(context.Background())
		jobtest.Must(t, err)
		if len(plan.Buckets) != 1 || plan.Buckets[0].Rows != 2 || plan.Buckets[0].Shape.Height != 192 || plan.Failed != 2 {
			t.Errorf("defaults with %s: got the plan %+v", half, plan)
		}
	}
}
