package tables

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas/fault"
)

// TestChangedMeaning: if rows are done with the meaning that their columns had in an earlier release, the job ends with exit code 2. It
// prints the number of rows and the setting that computes nothing again. With NewMeaning it computes them, and later rows need
// neither.
func TestChangedMeaning(t *testing.T) {
	picture, err := filepath.Abs(jobtest.Clips + "triangle.png")
	jobtest.Must(t, err)
	other, err := filepath.Abs(jobtest.Clips + "square.y4m")
	jobtest.Must(t, err)
	for name, c := range map[string]struct {
		table, more string // rows of the table, and a new row
		job         func(table string) jobtest.Job
		earlier     []string // settings with the meaning of the earlier release
		want        []string
		not         string
	}{
		"alias": {
			table: "id,prompt,cfg\na,a red square,2\nb,a blue circle,3\nc,a green circle,\n", more: "d,a blue square,5\n",
			job:     func(table string) jobtest.Job { return jobtest.Job{Prompts: table} },
			earlier: []string{`input.columns={guidance_scale: ""}`},
			want:    []string{"2 rows would be new", "cfg gives guidance_scale", `columns: {guidance_scale: ""}`, "--new-meaning"},
		},
		"source": {
			table: fmt.Sprintf("path,id,width,fps\n%s,a,32,8\n%[1]s,b,48,8\n", picture), more: other + ",c,64,8\n",
			job: func(table string) jobtest.Job {
				return jobtest.Job{Input: "{media: " + table + "}", Stages: "[encode_vae]", Sets: []string{"output.write=[latents]", "defaults.num_frames=1"}}
			},
			earlier: []string{"input.columns={width: width, fps: fps}"},
			want:    []string{"2 rows would be new", "describe the source and not the clips: fps, width", `columns: {fps: "fps", width: "width"}`},
		},
		"two": {
			table: fmt.Sprintf("path,id,width\n%s,a,32\n%[1]s,b,48\n", picture), more: other + ",c,64\n",
			job: func(table string) jobtest.Job {
				return jobtest.Job{Input: "{media: " + table + "}", Stages: "[encode_vae]", Sets: []string{"output.write=[latents]", "defaults.num_frames=1"}}
			},
			earlier: []string{"input.columns={width: width}", "stages.encode_vae.posterior=sample"},
			want: []string{"2 rows would be new", "describe the source and not the clips: width", `columns: {width: "width"}`,
				"posterior: sample (under encode_vae)"},
		},
		"one of two": {
			table: fmt.Sprintf("path,id,width\n%s,a,16\n", picture), more: other + ",c,64\n",
			job: func(table string) jobtest.Job {
				return jobtest.Job{Input: "{media: " + table + "}", Stages: "[encode_vae]", Sets: []string{"output.write=[latents]", "defaults.num_frames=1"}}
			},
			earlier: []string{"input.columns={width: width}", "stages.encode_vae.posterior=sample"}, // the value is the width that the job has
			want:    []string{"1 row would be new", "posterior: sample (under encode_vae)"}, not: "width",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := c.job(jobtest.WriteTable(t, "rows.csv", c.table))
			j.Out = filepath.Join(t.TempDir(), "out")
			was := j
			was.Sets = append(was.Sets[:len(was.Sets):len(was.Sets)], c.earlier...)
			rows := int64(strings.Count(c.table, "\n") - 1)
			if r := was.MustRun(t); r.Done != rows {
				t.Fatalf("got %d rows done", r.Done)
			}
			_, err := j.Run()
			if fault.ExitCode(err) != fault.ExitUsage {
				t.Fatalf("got error %v, exit code %d", err, fault.ExitCode(err))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error\n%v\ndoes not contain %q", err, want)
				}
			}
			if c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("the error\n%v\ncontains %q", err, c.not)
			}
			if r := was.MustRun(t); !r.NothingToDo {
				t.Errorf("with the setting that the error prints, the job computes %d rows, want 0", r.Done)
			}
			again := j
			again.Opts.NewMeaning = true
			if r := again.MustRun(t); r.Done == 0 {
				t.Error("--new-meaning computes nothing")
			}
			longer := c.job(jobtest.WriteTable(t, "rows.csv", c.table+c.more))
			longer.Out = j.Out
			if r := longer.MustRun(t); r.Done != 1 {
				t.Errorf("%d rows were computed, want the new one", r.Done)
			}
		})
	}
}

// TestChangedFolder: in earlier releases, a folder of frames with a video was one clip.
func TestChangedFolder(t *testing.T) {
	root := t.TempDir()
	for i := range 4 {
		data, err := os.ReadFile(jobtest.WritePicture(t, color.RGBA{uint8(50 * i), 0, 0, 255}))
		jobtest.Must(t, err)
		jobtest.WriteFile(t, root, fmt.Sprintf("%d.png", i), data)
	}
	data, err := os.ReadFile(jobtest.Clips + "square.y4m")
	jobtest.Must(t, err)
	jobtest.WriteFile(t, root, "more.y4m", data)
	j := jobtest.MediaJob(t, fmt.Sprintf("%q", root), "[encode_vae]", "output.write=[latents]", "defaults.num_frames=1")
	was := j
	was.Sets = append(j.Sets[:len(j.Sets):len(j.Sets)], "input.folders=clip")
	if r := was.MustRun(t); r.Done != 1 {
		t.Fatalf("got %d rows", r.Done)
	}
	if _, err := j.Run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "folders: clip (under input)") {
		t.Errorf("got error %v", err)
	}
	if r := was.MustRun(t); !r.NothingToDo {
		t.Error("with the setting that the error prints, the job computes rows")
	}
	j.Opts.NewMeaning = true
	if r := j.MustRun(t); r.Totals.Done != 5 {
		t.Errorf("got totals %+v", r.Totals)
	}
}
