package pipelines_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"latentbeam/schemas"
)

// TestMessagesOfModelStages: messages about stages that the model says point to the model in the job, and a model of a class
// without stages gets no advice to add some.
func TestMessagesOfModelStages(t *testing.T) {
	dir := wanDir(t, wanCases(t)["unipc"])
	text := fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q}\n", dir,
		writeTable(t, "p.csv", "prompt\na\n"), t.TempDir())
	for name, c := range map[string]struct {
		index, set, want, not string
	}{
		"an option":     {`{"_class_name": "WanPipeline"}`, "stages.denoise.flow_solver=none", "job.yaml:2:8", "model_index.json of"},
		"a bad stage":   {`{"_class_name": "WanPipeline"}`, "defaults.guidance_scale=-1", "--set defaults.guidance_scale", "model_index.json of"},
		"of the model":  {`{"_class_name": "WanPipeline", "boundary_ratio": 7}`, "", "job.yaml:2:8", "model_index.json of"},
		"not supported": {`{"_class_name": "WanVACEPipeline"}`, "", "job.yaml:2:8", "add stages"},
		"not known":     {`{}`, "", "add stages", "not supported"},
	} {
		put(t, dir, "model_index.json", []byte(c.index))
		var sets []string
		if c.set != "" {
			sets = []string{c.set}
		}
		_, err := runYAML(t, text, sets)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.not) {
			t.Errorf("%s: %v, want %q and not %q", name, err, c.want, c.not)
		}
	}
}

// TestPathsOfTables: ~ and file:// are taken in tables, and a missing file says what its path is relative to.
func TestPathsOfTables(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	data, err := os.ReadFile(clips + "triangle.png")
	must(t, err)
	put(t, home, "a b.png", data)
	j := encodes(t, writeTable(t, "t.csv", fmt.Sprintf("id,path\na,~/a b.png\nb,file://%s/a%%20b.png\nc,none.png\nd,%s/none.png\n", home, home)),
		"[encode_vae]", "output.write=[latents]", "defaults.num_frames=1")
	r, err := j.run()
	if err != nil || r.Totals.Done != 2 || r.Totals.Failed != 2 {
		t.Fatalf("%+v, %v", r.Totals, err)
	}
	for _, f := range readRows[schemas.FailureRow](t, j.out, "failures") {
		if relative := strings.HasSuffix(f.Message, "relative to the directory in which the job was started"); relative != (f.ID == "c") {
			t.Errorf("%s: %s", f.ID, f.Message)
		}
	}
}
