package tables

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
)

// TestPathsOfTables: tables may contain ~ and file://, and the error for a missing file names the base directory of its path.
func TestPathsOfTables(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	data, err := os.ReadFile(jobtest.Clips + "triangle.png")
	jobtest.Must(t, err)
	jobtest.WriteFile(t, home, "a b.png", data)
	j := jobtest.MediaJob(t, jobtest.WriteTable(t, "t.csv", fmt.Sprintf("id,path\na,~/a b.png\nb,file://%s/a%%20b.png\nc,none.png\nd,%s/none.png\n", home, home)),
		"[encode_vae]", "output.write=[latents]", "defaults.num_frames=1")
	r, err := j.Run()
	if err != nil || r.Totals.Done != 2 || r.Totals.Failed != 2 {
		t.Fatalf("got totals %+v, %v", r.Totals, err)
	}
	for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		if relative := strings.HasSuffix(f.Message, "relative to the directory in which the job was started"); relative != (f.ID == "c") {
			t.Errorf("row %s failed: %s", f.ID, f.Message)
		}
	}
}
