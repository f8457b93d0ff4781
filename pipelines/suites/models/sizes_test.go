package models

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// wanJob returns a job of a small Wan model.
func wanJob(t *testing.T, table string, sets ...string) jobtest.Job {
	t.Helper()
	dir := wanDir(t, wanCases(t)["unipc"])
	return jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", table), Out: filepath.Join(t.TempDir(), "out"), Stages: "[encode_text, denoise, decode_vae]",
		Sets: append([]string{"model=" + dir, "output.write=[latents]"}, sets...)}
}

// TestSizesOfFamily: names of sizes and lengths have the meaning of the model's family, in defaults and in tables.
func TestSizesOfFamily(t *testing.T) {
	table := "id,prompt,resolution,aspect_ratio,num_frames,fps\nplain,a,,,,\nrow,a,240p,9:16,2s,8\nsecond,a,,9:16,1s,\n"
	j := wanJob(t, table, "defaults={resolution: 144p, num_frames: 5s, fps: 16, num_inference_steps: 1}")
	opened, err := j.Unattached()
	jobtest.Must(t, err)
	defer opened.Close()
	p, err := opened.Plan(t.Context())
	jobtest.Must(t, err)
	got := map[string]bool{}
	for _, b := range p.Buckets {
		got[fmt.Sprintf("%dx%dx%d", b.Shape.Height, b.Shape.Width, b.Shape.NumFrames)] = true
	}
	for _, want := range []string{"144x256x81", "416x240x17", "256x144x17"} {
		if !got[want] {
			t.Errorf("the plan does not have %s, but %v, %v", want, got, p.First)
		}
	}
	j.Sets = append(j.Sets, "defaults.num_frames=5x")
	if _, err := j.Unattached(); err == nil || !strings.Contains(err.Error(), "defaults.num_frames") {
		t.Errorf("the length 5x: got error %v", err)
	}
}

// TestChangedRatio: an earlier release read the sizes of an output as Open-Sora's. If the user inverts the aspect ratio, the job computes
// nothing again.
func TestChangedRatio(t *testing.T) {
	was := wanJob(t, "id,prompt\na,a red square\n", "defaults={height: 144, width: 256, num_frames: 1, num_inference_steps: 1, guidance_scale: 1, seed: 1}")
	if r := was.MustRun(t); r.Done != 1 {
		t.Fatalf("%d rows are done", r.Done)
	}
	j := was
	now := "defaults={resolution: 144p, aspect_ratio: \"9:16\", num_frames: 1, num_inference_steps: 1, guidance_scale: 1, seed: 1}"
	j.Sets = append(was.Sets[:2:2], now)
	_, err := j.Run()
	if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), `1 row would be new`) ||
		!strings.Contains(err.Error(), `aspect_ratio: "16:9" (under defaults)`) {
		t.Fatalf("a job with the same line: got error %v", err)
	}
	j.Sets = append(was.Sets[:2:2], strings.Replace(now, "9:16", "16:9", 1))
	if r := j.MustRun(t); r.Done != 0 || r.Totals.Done != 1 {
		t.Errorf("with the line that the error recommends, the job computes %d rows, want 0", r.Done)
	}
}

// TestStillOfLatents: a row of latents with one frame and no frame rate becomes a video of one second.
func TestStillOfLatents(t *testing.T) {
	j := wanJob(t, "media,id\n"+jobtest.Clips+"triangle.png,a\n", "defaults={height: 32, width: 32, num_frames: 1}")
	j.Input, j.Stages = fmt.Sprintf("{media: %q}", j.Prompts), "[encode_vae]"
	j.MustRun(t)
	shown := j
	shown.Input, shown.Stages, shown.Out = fmt.Sprintf("{latents: %q}", jobtest.TableFile(j.Out, "latents")), "[decode_vae, encode_video]",
		filepath.Join(t.TempDir(), "out")
	shown.Sets = append(j.Sets[:1:1], "output.write=[video]", "defaults={}")
	shown.MustRun(t)
	rows := jobtest.ReadRows[schemas.VideoRow](t, shown.Out, "videos")
	if len(rows) != 1 || rows[0].FPS != 1 || rows[0].NumFrames != 1 {
		t.Errorf("got rows %+v", rows)
	}
}
