package marks

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/results/export"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// watermarking is a stage that reports a watermark for one row.
type watermarking struct{}

func (watermarking) Digest() string                              { return "" }
func (watermarking) Check(*schemas.PromptRow) error              { return nil }
func (watermarking) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }
func (watermarking) Capabilities() stages.Capabilities           { return stages.Capabilities{} }
func (watermarking) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		if strings.Contains(e.Row.Prompt, "blue") {
			e.Read(map[string]string{"watermark": "test:01"})
		}
	}
	return nil
}

// TestWatermarkedExports: rows with a watermark, reported by a reading or by a carried column of an earlier job, are exported only
// with --watermarked.
func TestWatermarkedExports(t *testing.T) {
	spec := stages.Spec{Name: "watermark", In: stages.KindFrames, Out: stages.KindFrames, Version: 1, Readings: []string{"watermark"},
		New: func(*stages.Model, stages.Options) (stages.Stage, error) { return watermarking{}, nil }}
	clean := jobtest.NewJob(t, "id,prompt\na,a red circle\nb,a green square\n")
	read := jobtest.NewJob(t, "id,prompt\na,a red circle\nb,a blue square\n")
	carried := jobtest.NewJob(t, "id,prompt,measured_watermark\na,a red circle,\nb,a green square,dwtDct:6c62656d\n")
	for what, c := range map[string]struct {
		job  jobtest.Job
		fits bool
	}{"clean": {clean, true}, "a reading": {read, false}, "a carried column": {carried, false}} {
		j := c.job
		j.Specs = []stages.Spec{spec}
		j.Stages = "[encode_text, denoise, decode_vae, watermark, encode_video]"
		j.MustRun(t)
		for _, asked := range []bool{false, true} {
			to := filepath.Join(t.TempDir(), "exported")
			done, err := export.Run(t.Context(), openDir(t, j.Out), to, export.Options{To: "safetensors", Watermarked: asked})
			if c.fits || asked {
				if err != nil || done.Rows != 2 {
					t.Errorf("%s, with --watermarked: %v: got %+v, %v", what, asked, done, err)
				}
				continue
			}
			if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "such as b") {
				t.Errorf("%s: got error %v", what, err)
			}
			if _, err := os.Stat(to + ".partial"); err == nil {
				t.Errorf("%s: something was written", what)
			}
		}
	}
}

// TestMediaThatAreMarked: rows of media list the marks of their files. Results of rows without marks list none.
func TestMediaThatAreMarked(t *testing.T) {
	made := jobtest.NewJob(t, "id,prompt,num_frames\na,a red circle,1\n")
	made.MustRun(t)
	plain := made.Elsewhere(t)
	plain.Stages = jobtest.Unmarked
	plain.MustRun(t)
	for out, want := range map[string]string{made.Out: "aigc, iptc", plain.Out: ""} {
		still := filepath.Join(out, filepath.FromSlash(jobtest.VideoFiles(t, out, "a")[0]))
		table := jobtest.WriteTable(t, "media.csv", "id,path,caption\nx,"+still+",a caption\n")
		j := jobtest.Job{Input: "{media: " + table + "}", Out: filepath.Join(t.TempDir(), "out"), Stages: "[encode_vae, decode_vae, encode_video]",
			Sets: []string{"output.write=[video]", "defaults.num_frames=1"}}
		j.MustRun(t)
		rows := jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos")
		if len(rows) != 1 || strings.Contains(rows[0].Readings, `"source_marks":"aigc, iptc"`) != (want != "") {
			t.Errorf("got rows %+v", rows)
		}
	}
}
