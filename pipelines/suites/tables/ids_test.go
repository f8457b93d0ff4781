package tables

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
)

// TestIDsOfFiles: media files with the same name in two folders have different ids. Rows of an existing output retain their ids.
func TestIDsOfFiles(t *testing.T) {
	root := t.TempDir()
	for i, name := range []string{"s1/a.png", "s2/a.png", "s3/b.png"} {
		data, err := os.ReadFile(jobtest.WritePicture(t, color.RGBA{uint8(50 * i), 0, 0, 255}))
		jobtest.Must(t, err)
		jobtest.WriteFile(t, root, name, data)
	}
	ids := func(out string) string {
		var all []string
		for _, r := range jobtest.ReadRows[schemas.LatentRow](t, out, "latents") {
			all = append(all, r.ID)
		}
		return strings.Join(all, " ")
	}
	j := jobtest.MediaJob(t, fmt.Sprintf("%q", root+"/**/*.png"), "[encode_vae]", "output.write=[latents]", "defaults.num_frames=1")
	if r := j.MustRun(t); r.Done != 3 || ids(j.Out) != "s1/a s2/a b" {
		t.Errorf("got %d rows done, ids %q", r.Done, ids(j.Out))
	}
	if r := j.MustRun(t); !r.NothingToDo {
		t.Error("a rerun computes rows")
	}

	// An earlier release gave both files the id a.
	was := jobtest.MediaJob(t, jobtest.WriteTable(t, "t.csv", fmt.Sprintf("id,path\na,%s/s1/a.png\na,%s/s2/a.png\n", root, root)), "[encode_vae]",
		"output.write=[latents]", "defaults.num_frames=1")
	was.MustRun(t)
	now := j
	now.Out = was.Out
	if r := now.MustRun(t); r.Done != 1 || ids(now.Out) != "a a b" {
		t.Errorf("got %d rows computed, ids %q; want 0, and the old ids of done rows", r.Done, ids(now.Out))
	}
	opened, err := now.Unattached()
	jobtest.Must(t, err)
	defer opened.Close()
	jobtest.Must(t, opened.Peek(t.Context()))
	p, err := opened.Plan(t.Context())
	if err != nil || !strings.Contains(strings.Join(p.Warnings, "\n"), filepath.Join(root, "s1/a.png")+" and "+filepath.Join(root, "s2/a.png")) {
		t.Errorf("the warning does not name the folders: %v, %v", p.Warnings, err)
	}
}
