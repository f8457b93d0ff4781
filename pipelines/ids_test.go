package pipelines_test

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/schemas"
)

// TestIDsOfFiles: media files of one name in two folders have ids that tell them apart. Rows that an output has keep their ids.
func TestIDsOfFiles(t *testing.T) {
	root := t.TempDir()
	for i, name := range []string{"s1/a.png", "s2/a.png", "s3/b.png"} {
		data, err := os.ReadFile(writePicture(t, color.RGBA{uint8(50 * i), 0, 0, 255}))
		must(t, err)
		put(t, root, name, data)
	}
	ids := func(out string) string {
		var all []string
		for _, r := range readRows[schemas.LatentRow](t, out, "latents") {
			all = append(all, r.ID)
		}
		return strings.Join(all, " ")
	}
	j := encodes(t, fmt.Sprintf("%q", root+"/**/*.png"), "[encode_vae]", "output.write=[latents]", "defaults.num_frames=1")
	if r := j.mustRun(t); r.Done != 3 || ids(j.out) != "s1/a s2/a b" {
		t.Errorf("%d rows, ids %q", r.Done, ids(j.out))
	}
	if r := j.mustRun(t); !r.NothingToDo {
		t.Error("a rerun does something")
	}

	// An earlier release gave both the id a.
	was := encodes(t, writeTable(t, "t.csv", fmt.Sprintf("id,path\na,%s/s1/a.png\na,%s/s2/a.png\n", root, root)), "[encode_vae]",
		"output.write=[latents]", "defaults.num_frames=1")
	was.mustRun(t)
	now := j
	now.out = was.out
	if r := now.mustRun(t); r.Done != 1 || ids(now.out) != "a a b" {
		t.Errorf("%d rows computed, ids %q: rows that are done keep theirs", r.Done, ids(now.out))
	}
	opened, err := now.unattached()
	must(t, err)
	defer opened.Close()
	must(t, opened.Peek(t.Context()))
	p, err := opened.Plan(t.Context())
	if err != nil || !strings.Contains(strings.Join(p.Warnings, "\n"), filepath.Join(root, "s1/a.png")+" and "+filepath.Join(root, "s2/a.png")) {
		t.Errorf("the warning does not name the folders: %v, %v", p.Warnings, err)
	}
}
