package pipelines_test

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageOfClips: a job that makes tensors of media has a page with the media as a browser shows them where they lie, their captions and
// readings; the page and the report of the last run lead to one another; and a job without media has none.
func TestPageOfClips(t *testing.T) {
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, "a b.png"))
	must(t, err)
	must(t, png.Encode(f, image.NewRGBA(image.Rect(0, 0, 64, 64))))
	must(t, f.Close())
	table := writeTable(t, "clips.csv", "path,caption\n"+folder+"/a b.png,a caption of <it>\n"+clips+"square.y4m,another\n")
	j := job{input: "{media: \"" + table + "\"}", out: filepath.Join(t.TempDir(), "out"), stages: "[{score: {by: [luminance]}}, encode_vae, encode_text]",
		sets: []string{"output.write=[latents, embeddings]", "defaults.height=64", "defaults.width=64", "defaults.num_frames=1", "on_error.stop_after=5"}}
	r := j.mustRun(t)
	page, err := os.ReadFile(filepath.Join(j.out, "index.html"))
	must(t, err)
	rel, err := filepath.Rel(j.out, folder)
	must(t, err)
	for _, want := range []string{filepath.ToSlash(rel) + "/a%20b.png", `a caption of \u003cit\u003e`, "Measured luminance", `href="runs/report.html"`, "Clips", `"clips.csv:3","another","",""`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page[strings.Index(string(page), `id="rows"`):][:600])
		}
	}
	if r.Gallery != "index.html" {
		t.Errorf("the gallery is %q", r.Gallery)
	}
	for name, want := range map[string]string{"runs/report.html": `href="../index.html"`, r.Page: `href="../../index.html"`} {
		report, err := os.ReadFile(filepath.Join(j.out, name))
		if err != nil || !strings.Contains(string(report), want) {
			t.Errorf("%s lacks %s: %v", name, want, err)
		}
	}
	j = job{prompts: writeTable(t, "p.csv", "prompt\na red circle\n"), out: j.out + "2", stages: "[encode_text]", sets: []string{"output.write=[embeddings]"}}
	if r := j.mustRun(t); r.Gallery != "" {
		t.Errorf("texts alone have the gallery %q", r.Gallery)
	}
}
