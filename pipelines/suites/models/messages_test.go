package models

import (
	"fmt"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
)

// TestMessagesOfModelStages: if the stages come from the model, messages about them have the line of the model in the job. A model of an
// unsupported class gives no advice to add stages.
func TestMessagesOfModelStages(t *testing.T) {
	dir := wanDir(t, wanCases(t)["unipc"])
	text := fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q}\n", dir,
		jobtest.WriteTable(t, "p.csv", "prompt\na\n"), t.TempDir())
	for name, c := range map[string]struct {
		index, set, want, not string
	}{
		"an option":     {`{"_class_name": "WanPipeline"}`, "stages.denoise.flow_solver=none", "job.yaml:2:8", "model_index.json of"},
		"a bad stage":   {`{"_class_name": "WanPipeline"}`, "defaults.guidance_scale=-1", "--set defaults.guidance_scale", "model_index.json of"},
		"of the model":  {`{"_class_name": "WanPipeline", "boundary_ratio": 7}`, "", "job.yaml:2:8", "model_index.json of"},
		"not supported": {`{"_class_name": "WanVACEPipeline"}`, "", "job.yaml:2:8", "add stages"},
		"not known":     {`{}`, "", "add stages", "not supported"},
	} {
		jobtest.WriteFile(t, dir, "model_index.json", []byte(c.index))
		var sets []string
		if c.set != "" {
			sets = []string{c.set}
		}
		_, err := runYAML(t, text, sets)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.not) {
			t.Errorf("%s: got error %v, want %q and not %q", name, err, c.want, c.not)
		}
	}
}
