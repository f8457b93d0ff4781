package tables

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
)

// TestPageOfClips: a job that makes tensors of media has a page that shows the media in their place, with captions and
// readings. The page and the report of the last run link to each other. A job without media has no page.
func TestPageOfClips(t *testing.T) {
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, "a b.png"))
	jobtest.Must(t, err)
	jobtest.Must(t, png.Encode(f, image.NewRGBA(image.Rect(0, 0, 64, 64))))
	jobtest.Must(t, f.Close())
	table := jobtest.WriteTable(t, "clips.csv", "path,caption\n"+folder+"/a b.png,a caption of <it>\n"+jobtest.Clips+"square.y4m,another\n")
	j := jobtest.Job{Input: "{media: \"" + table + "\"}", Out: filepath.Join(t.TempDir(), "out"), Stages: "[{score: {by: [luminance]}}, encode_vae, encode_text]",
		Sets: []string{"output.write=[latents, embeddings]", "defaults.height=64", "defaults.width=64", "defaults.num_frames=1", "on_error.stop_after=5"}}
	r := j.MustRun(t)
	page, err := os.ReadFile(filepath.Join(j.Out, "index.html"))
	jobtest.Must(t, err)
	rel, err := filepath.Rel(j.Out, folder)
	jobtest.Must(t, err)
	for _, want := range []string{filepath.ToSlash(rel) + "/a%20b.png", `a caption of \u003cit\u003e`, "Measured luminance", `href="runs/report.html"`, "Clips", `"clips.csv:3","another","",""`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not contain %q:\n%s", want, page[strings.Index(string(page), `id="rows"`):][:600])
		}
	}
	if r.Gallery != "index.html" {
		t.Errorf("the path of the gallery is %q", r.Gallery)
	}
	for name, want := range map[string]string{"runs/report.html": `href="../index.html"`, r.Page: `href="../../index.html"`} {
		report, err := os.ReadFile(filepath.Join(j.Out, name))
		if err != nil || !strings.Contains(string(report), want) {
			t.Errorf("%s does not contain %s: %v", name, want, err)
		}
	}
	j = jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\na red circle\n"), Out: j.Out + "2", Stages: "[encode_text]", Sets: []string{"output.write=[embeddings]"}}
	if r := j.MustRun(t); r.Gallery != "" {
		t.Errorf("a job without media has the gallery %q", r.Gallery)
	}
}
