package pipelines_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/watch/runpage"
)

// TestRunPage: a run that computes rows writes a page with its stages, its devices and a forecast. A run that has nothing to do
// writes none.
func TestRunPage(t *testing.T) {
	j := jobtest.NewJob(t, "id,prompt,seed\na,a red circle,1\nb,a blue square,2\nbad,a green square,x\n")
	want := predictedOf(t, j)
	r := j.MustRun(t)
	data, err := os.ReadFile(filepath.Join(j.Out, r.Page))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, want := range []string{"encode_text", "denoise", "decode_vae", "16x16x2", "cpu:0", "2 rows", "is not a whole number",
		">linear<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	predicted := regexp.MustCompile(`<td>the run[^<]*</td><td>([^<]+)</td><td>[^<]+</td><td>[0-9]+\.[0-9]{2}</td>`)
	if m := predicted.FindStringSubmatch(page); m == nil || m[1] != runpage.Short(want) {
		t.Errorf("the page predicts %q, but the plan %v", m, want)
	}
	for _, part := range []string{"<td>denoise</td>", "<h2>Memory by stage</h2>", "<h2>Memory by device</h2>", " &#43; "} {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not contain %q", part)
		}
	}
	if r.Gallery != "index.html" {
		t.Errorf("the path of the gallery is %q", r.Gallery)
	}
	if again := j.MustRun(t); again.Page != "" {
		t.Errorf("a run with nothing to do wrote the page %q", again.Page)
	}
}

// predictedOf returns the forecast of a job's run by its plan, with and without the layouts that were not chosen.
func predictedOf(t *testing.T, j jobtest.Job) time.Duration {
	t.Helper()
	opened, err := j.Open()
	jobtest.Must(t, err)
	defer opened.Close()
	p, err := opened.Plan(t.Context())
	jobtest.Must(t, err)
	plain, err := opened.Forecast().Predict(t.Context(), p.Work, false)
	jobtest.Must(t, err)
	full, err := opened.Forecast().Predict(t.Context(), p.Work, true)
	jobtest.Must(t, err)
	if plain.Seconds <= 0 || plain.Seconds != full.Seconds || len(full.Layouts) != 1 || full.Layouts[0].Seconds() != full.Seconds {
		t.Errorf("predicted %g s without and %g s with the other layouts, which are %+v", plain.Seconds, full.Seconds, full.Layouts)
	}
	if step := full.Layouts[0].Best.Sets[0].Forward; step.Compute < 1e-7*10 { // no kernel takes less than 0.1 us
		t.Errorf("a step takes %g s, less time than starting its kernels", step.Compute)
	}
	return time.Duration(plain.Seconds * float64(time.Second))
}

// TestOutsideOfTheBuiltInModel: rows on which the built-in model was not trained cause a warning before they are computed.
func TestOutsideOfTheBuiltInModel(t *testing.T) {
	for table, want := range map[string]string{
		"prompt,height,width,num_frames\na red circle moving left,64,64,16\n":                        "",
		"prompt,height,width,num_frames\na white circle moving left,64,64,16\na red ball,64,64,16\n": "1 row with another text",
		"prompt,height,width,num_frames\na red circle,64,128,16\na red box,64,64,1\n":                "2 rows of another size",
		"prompt,height,width,num_frames\na cat,64,128,16\n":                                          "1 row of another size or length and 1 with another text",
	} {
		opened, err := jobtest.NewJob(t, table).Open()
		if err != nil {
			t.Fatal(err)
		}
		p, err := opened.Plan(t.Context())
		opened.Close()
		if err != nil || (want == "") != (len(p.Warnings) == 0) || !strings.Contains(strings.Join(p.Warnings, "; "), want) {
			t.Errorf("table %q: got warnings %q, want %q (%v)", table, p.Warnings, want, err)
		}
	}
}
