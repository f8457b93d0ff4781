package programs

import (
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/exec/exectest"
)

// TestProgramToGallery runs a whole job with a program in the middle, from a table of prompts to a gallery. A second run
// has nothing to do, also after a change of options that are not part of the keys.
func TestProgramToGallery(t *testing.T) {
	stage := jobtest.Program(t, "prompt", "video", "")
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", "id,prompt\na,a red circle\nb,a blue square do:crash-once\nc,poor do:error\n"),
		Out: filepath.Join(t.TempDir(), "out"), Stages: "[" + stage + "]", Sets: []string{"model=none", "output.write=[video]"}}
	r := j.MustRun(t)
	if r.Totals.Done != 2 || r.Totals.Failed != 1 {
		t.Fatalf("got totals %+v", r.Totals)
	}
	videos := jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos")
	for _, v := range videos {
		if v.Codec != "png" || v.Width != 16 || v.Height != 16 || v.Poster == "" ||
			!strings.Contains(v.Readings, fmt.Sprintf(`"seed":"%d"`, v.Seed)) {
			t.Errorf("got the video %+v", v)
		}
		if _, err := os.Stat(filepath.Join(j.Out, v.VideoPath)); err != nil {
			t.Error(err)
		}
	}
	failures := jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures")
	if len(failures) != 1 || failures[0].Stage != "exec" || failures[0].Class != "row" || failures[0].Message != "the program says no" {
		t.Errorf("got failures %+v", failures)
	}
	page, err := os.ReadFile(filepath.Join(j.Out, "index.html"))
	jobtest.Must(t, err)
	if !strings.Contains(string(page), "a red circle") {
		t.Error("the gallery does not show the row")
	}
	first := jobtest.MustRead(t, j.Out)
	j.Sets = append(j.Sets, "stages.exec.workers=2", "stages.exec.timeout=5m", "stages.exec.batch=2", "stages.exec.batch_invariant=true",
		"stages.exec.name=generate")
	if r := j.MustRun(t); !r.NothingToDo {
		t.Errorf("options of how the program runs must not change keys: %+v", r.Totals)
	}
	if wrong := first.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
		t.Error(wrong)
	}
	j.Sets = append(j.Sets, "stages.generate.version=2")
	if r := j.MustRun(t); r.NothingToDo || r.Totals.Done != 2 {
		t.Errorf("another version of the program must change all keys: %+v", r.Totals)
	}
}

// TestOutputOfProgramIsInput: if a program has no steps and no guidance, the videos table has no values for them. It can be the prompt
// table of another job.
func TestOutputOfProgramIsInput(t *testing.T) {
	stage := jobtest.Program(t, "prompt", "video", ", params: [prompt, seed]")
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", "id,prompt\na,a red circle\n"), Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[" + stage + "]", Sets: []string{"model=none", "output.write=[video]", "defaults={}"}}
	j.MustRun(t)
	rows := jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos")
	if len(rows) != 1 || rows[0].NumInferenceSteps != 0 || rows[0].GuidanceScale != nil {
		t.Fatalf("got rows %+v", rows)
	}
	next := j
	next.Prompts, next.Out = filepath.Join(j.Out, "tables", "videos"), filepath.Join(t.TempDir(), "out")
	opened, err := next.Open()
	jobtest.Must(t, err)
	defer opened.Close()
	p, err := opened.Plan(t.Context())
	jobtest.Must(t, err)
	if p.New != 1 || p.Failed != 0 || len(p.Warnings) > 0 {
		t.Errorf("the plan of the second job has %d new rows, %d failed, warnings %q", p.New, p.Failed, p.Warnings)
	}
}

// TestProgramsBetweenStages: a job can have several programs between built-in stages.
func TestProgramsBetweenStages(t *testing.T) {
	table := jobtest.WriteTable(t, "prompts.csv", "id,prompt\na,a red circle\nb,a blue square do:exit-once\n")
	denoise := jobtest.Program(t, "text", "latents", ", name: denoise_it, params: [prompt, seed, height, width, num_frames]")
	pass := jobtest.Program(t, "latents", "latents", ", name: pass")
	j := jobtest.Job{Prompts: table, Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[encode_text, " + denoise + ", " + pass + ", decode_vae, encode_video]"}
	if r := j.MustRun(t); r.Totals.Done != 2 {
		t.Fatalf("got totals %+v, failures %+v", r.Totals, jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures"))
	}
	for _, row := range jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents") {
		if fmt.Sprint(row.VAELatentShape) != "[4 2 2 2]" {
			t.Errorf("got latents of shape %v", row.VAELatentShape)
		}
	}
	for _, row := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
		if row.Codec != "h264" || row.NumFrames != 2 {
			t.Errorf("got the row %+v", row)
		}
	}
	seen := map[string][]string{}
	// Latents that pass through a program unchanged give the same videos as without it.
	for name, list := range map[string]string{"with": "[encode_text, denoise, " + jobtest.Program(t, "latents", "latents",
		"") + ", decode_vae, encode_video: {marks: none}]",
		"without": "[encode_text, denoise, decode_vae, encode_video: {marks: none}]"} {
		j := jobtest.Job{Prompts: table, Out: filepath.Join(t.TempDir(), name), Stages: list, Sets: []string{"output.write=[video]"}}
		j.MustRun(t)
		var sums []string
		for _, row := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
			sums = append(sums, row.VideoSHA256)
		}
		slices.Sort(sums)
		seen[name] = sums
	}
	if !slices.Equal(seen["with"], seen["without"]) {
		t.Errorf("the videos with and without the program differ: %v", seen)
	}
}

// TestProgramGetsColumns: a program receives a column of the user with its value in the table. The column is part of the keys of
// rows that have it.
func TestProgramGetsColumns(t *testing.T) {
	rows := "id,prompt,style,note\na,a red circle,oil,x\nb,a red circle,ink,y\n"
	trace := filepath.Join(t.TempDir(), "trace")
	name, value := exectest.Trace(trace)
	t.Setenv(name, value)
	with := func(params string) jobtest.Job {
		return jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", rows), Out: filepath.Join(t.TempDir(), "out"),
			Stages: "[" + jobtest.Program(t, "prompt", "video", ", params: [prompt, seed, "+params+"]") + "]",
			Sets:   []string{"model=none", "output.write=[video]", "on_error.stop_after=100%"}}
	}
	j := with("style")
	if r := j.MustRun(t); r.Totals.Done != 2 {
		t.Fatalf("got totals %+v", r.Totals)
	}
	videos := jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos")
	if len(videos) != 2 || videos[0].Key == videos[1].Key {
		t.Errorf("rows that differ in a column that the program gets have the same key: %+v", videos)
	}
	said, err := os.ReadFile(trace)
	jobtest.Must(t, err)
	if !strings.Contains(string(said), `"style":"oil"`) || strings.Contains(string(said), "note") {
		t.Errorf("the program has printed %s", said)
	}
	j.Prompts = jobtest.WriteTable(t, "prompts.csv", strings.ReplaceAll(strings.ReplaceAll(rows, "oil,x", "oil,z"), "ink", "pen"))
	opened, err := j.Open()
	jobtest.Must(t, err)
	all, err := opened.Explain(t.Context(), "b")
	opened.Close()
	if err != nil || len(all) != 1 || len(all[0].Changed) != 1 || all[0].Changed[0].Name != "style" || all[0].Changed[0].A != `"ink"` {
		t.Errorf("explain: got %+v, %v", all, err)
	}
	raised := j
	raised.Stages = strings.Replace(j.Stages, "params:", "version: 2, params:", 1)
	opened, err = raised.Open()
	jobtest.Must(t, err)
	all, err = opened.Explain(t.Context(), "b")
	opened.Close()
	if text := fmt.Sprint(all); err != nil || !strings.Contains(text, "{stage exec  version 2}") ||
		strings.Contains(text, "weights_digest") {
		t.Errorf("explain after the version was raised: %s, %v", text, err)
	}
	if r := j.MustRun(t); r.Totals.Done != 2 || r.Done != 1 {
		t.Errorf("after a change of one style of two, and of a column that the program does not get, the run must compute one row: %+v", r.Totals)
	}
	j = with("stile")
	if _, err := j.Run(); err == nil || !strings.Contains(err.Error(),
		`prompts.csv:1: no column "stile", which the params of a stage name`) ||
		!strings.Contains(err.Error(), "did you mean style?") {
		t.Errorf("a column that does not exist: got error %v", err)
	}
}

// TestCaptioner: a program writes captions for a folder of images. Tensors and tables contain these captions.
func TestCaptioner(t *testing.T) {
	caption := jobtest.Program(t, "media", "prompt", ", name: caption")
	j := jobtest.Job{Input: "{media: ../../../testdata/media/triangle.png}", Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[" + caption + ", encode_vae, encode_text]",
		Sets:   []string{"output.write=[latents, embeddings]"}}
	if r := j.MustRun(t); r.Totals.Done != 1 {
		t.Fatalf("got totals %+v", r.Totals)
	}
	const want = "a new " // the program adds this to the empty caption
	for _, row := range jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents") {
		if row.Caption != strings.TrimSpace(want) {
			t.Errorf("the caption is %q", row.Caption)
		}
	}
	for _, row := range jobtest.ReadRows[schemas.EmbeddingRow](t, j.Out, "embeddings") {
		if row.Caption != strings.TrimSpace(want) || row.Seed == nil {
			t.Errorf("got the row %+v", row)
		}
	}
}

// TestEveryPairOfKinds: a program can read and write any pair of kinds. Other programs before and after it complete the job.
func TestEveryPairOfKinds(t *testing.T) {
	kinds := []stages.Kind{stages.KindPrompt, stages.KindText, stages.KindMedia, stages.KindLatents, stages.KindFrames, stages.KindVideo}
	for i, takes := range kinds {
		for k, gives := range kinds {
			if testing.Short() && (i+k)%3 != 0 { // in a short test, twelve pairs, in which each kind is read twice and written twice
				continue
			}
			var list []string
			if takes != stages.KindPrompt {
				list = append(list, jobtest.Program(t, "prompt", string(takes), ", name: before"))
			}
			list = append(list, jobtest.Program(t, string(takes), string(gives), ""))
			if gives != stages.KindVideo && takes != stages.KindVideo {
				list = append(list, jobtest.Program(t, string(gives), "video", ", name: behind"))
			}
			j := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\na red circle\n"), Out: filepath.Join(t.TempDir(), "out"),
				Stages: "[" + strings.Join(list, ", ") + "]", Sets: []string{"model=none", "output.write=[video]"}}
			if r, err := j.Run(); err != nil || r.Totals.Done != 1 {
				t.Errorf("%s to %s: got error %v, %+v", takes, gives, err, r)
			}
		}
	}
	for list, want := range map[string]string{
		"[{exec: {command: [sh], takes: media, gives: video}}]":                                                                  "takes media, but the input gives prompt",
		"[{exec: {command: [sh], takes: prompt, gives: media}}, {exec: {command: [sh], takes: latents, gives: video, name: b}}]": "takes latents, but stage \"exec\" before it gives media",
		"[{exec: {command: [sh], takes: prompt, gives: film}}]":                                                                  "known: prompt, text, media, latents, frames, video",
	} {
		_, err := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\nx\n"), Out: t.TempDir(), Stages: list,
			Sets: []string{"model=none"}}.Unattached()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v", list, err)
		}
	}
}

// TestConverter: a program converts the media of a folder, and the autoencoder reads the converted media.
func TestConverter(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	sums := map[string]string{}
	for name, list := range map[string]string{"with": "[" + jobtest.Program(t, "media", "media", ", name: convert") + ", encode_vae, encode_text]",
		"twice":   "[" + jobtest.Program(t, "media", "media", ", name: a") + ", " + jobtest.Program(t, "media", "media", ", name: b") + ", encode_vae, encode_text]",
		"without": "[encode_vae, encode_text]"} {
		j := jobtest.Job{Input: "{media: ../../../testdata/media/triangle.png}", Out: filepath.Join(t.TempDir(), name), Stages: list,
			Sets: []string{"output.write=[latents, embeddings]"}}
		if r := j.MustRun(t); r.Totals.Done != 1 {
			t.Fatalf("got totals %+v", r.Totals)
		}
		for _, row := range jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents") {
			sums[name] = row.VAELatentSHA256
		}
		if n := len(jobtest.ReadRows[schemas.EmbeddingRow](t, j.Out, "embeddings")); n != 1 {
			t.Errorf("got %d embeddings", n)
		}
	}
	if sums["with"] == sums["without"] || sums["with"] != sums["twice"] || sums["with"] == "" {
		t.Errorf("got latents %v", sums)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "latentbeam-media-*")); len(left) > 0 {
		t.Errorf("the program's files were not removed: %v", left)
	}
}

// TestScorer runs python/examples/clip_score.yaml with a small CLIP with random weights. The readings of the program are columns of
// the videos table, and the videos are equal to those of the job without it.
func TestScorer(t *testing.T) {
	testaid.Needs(t, "python3")
	examples, err := filepath.Abs("../../../python/examples")
	jobtest.Must(t, err)
	model := filepath.Join(t.TempDir(), "clip")
	if out, err := osexec.Command("python3", filepath.Join(examples, "tiny_clip.py"), model).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: python/examples/clip_score.py: no python3 with torch, transformers, Pillow and av: %s", out[max(0, len(out)-200):])
	}
	t.Setenv("PYTHONPATH", "../../../python/latentbeam-stage/src")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	score := fmt.Sprintf("{exec: {name: clip, command: [python3, %q], takes: video, gives: readings, params: [prompt], env: {MODEL: %q}}}",
		filepath.Join(examples, "clip_score.py"), model)
	sums := [2][]string{}
	for i, list := range []string{"[encode_text, denoise, decode_vae, encode_video, " + score + "]",
		"[encode_text, denoise, decode_vae, encode_video]"} {
		j := jobtest.Job{Prompts: filepath.Join(examples, "prompts.csv"), Out: filepath.Join(t.TempDir(), "out"), Stages: list,
			Sets: []string{"output.write=[video]", "defaults.num_inference_steps=2"}}
		j.MustRun(t)
		for _, row := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
			sums[i] = append(sums[i], row.VideoSHA256)
		}
		files, err := filepath.Glob(filepath.Join(j.Out, "tables/videos/*.parquet"))
		jobtest.Must(t, err)
		rows, err := parquet.ReadFile[struct {
			Clip *float64 `parquet:"measured_clip,optional"`
		}](files[0])
		jobtest.Must(t, err)
		for _, row := range rows {
			switch {
			case i == 1 && row.Clip != nil:
				t.Errorf("a video of a job without a scorer has the score %v", *row.Clip)
			case i == 0 && row.Clip == nil:
				t.Error("a video has no score")
			case i == 0:
				if s := *row.Clip; !(s >= -1 && s <= 1) {
					t.Errorf("a video has the score %v", s)
				}
			}
		}
	}
	if len(sums[0]) != 2 || !slices.Equal(sums[0], sums[1]) {
		t.Errorf("the videos with and without the scorer differ: %v", sums)
	}
}

// TestProgramOnTwoDevices: a job can have a program on two devices and a stage on one device. With too few devices it is an error.
func TestProgramOnTwoDevices(t *testing.T) {
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", "id,prompt\na,x\nb,y do:crash-once\nc,z\n"), Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[" + jobtest.Program(t, "prompt", "frames", ", devices: 2") + ", encode_video]",
		Sets:   []string{"model=none", "output.write=[video]", "resources.workers=4"}}
	if r := j.MustRun(t); r.Totals.Done != 3 {
		t.Errorf("got totals %+v", r.Totals)
	}
	j.Sets[2] = "resources.workers=1"
	if _, err := j.Run(); err == nil || !strings.Contains(err.Error(), "exec wants 2 workers for a program, the job has 1") {
		t.Error(err)
	}
}

// TestRowThatCrashesTheProgram: if a row crashes the program, only this row fails, whatever its batch.
func TestRowThatCrashesTheProgram(t *testing.T) {
	var table strings.Builder
	table.WriteString("id,prompt\n")
	for i := range 8 {
		how := ""
		if i == 5 {
			how = "do:exit"
		}
		fmt.Fprintf(&table, "%d,circle %d %s\n", i, i, how)
	}
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", table.String()), Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[" + jobtest.Program(t, "prompt", "frames", ", batch: 4, batch_invariant: true") + ", encode_video]",
		Sets:   []string{"model=none", "output.write=[video]", "on_error.retries=2"}}
	r := j.MustRun(t)
	if r.Totals.Done != 7 || r.Totals.Failed != 1 {
		t.Errorf("got totals %+v", r.Totals)
	}
	failures := jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures")
	if len(failures) != 1 || failures[0].ID != "5" || failures[0].Class != "retry" ||
		failures[0].Message != "crash: it ended with status 3; the last it printed: out of luck (2 tries)" {
		t.Errorf("got failures %+v", failures)
	}
	logs, err := filepath.Glob(filepath.Join(j.Out, "runs", "*", "exec.log"))
	if err != nil || len(logs) != 1 || !slices.Equal(r.Logs, logs) {
		t.Fatalf("got log files %q, but the result names %q: %v", logs, r.Logs, err)
	}
	text, err := os.ReadFile(logs[0])
	jobtest.Must(t, err)
	if !strings.Contains(string(text), "started: ") ||
		!strings.Contains(string(text), "crash: it ended with status 3; the last it printed: out of luck (row 5, try 2)") {
		t.Errorf("the log does not have the crash:\n%s", text)
	}
}

// TestProgramOptionsHaveLines: errors of options have the line of the option.
func TestProgramOptionsHaveLines(t *testing.T) {
	for list, want := range map[string]string{
		"\n  - exec:\n      command: [sh]\n      takes: prompt\n      gives: film":                                           `job.yaml:9:14: exec: gives is "film"`,
		"\n  - exec:\n      command: [sh]\n      takes: latents\n      gives: video":                                         "job.yaml:6:5: stage \"exec\" takes latents, but the input gives prompt",
		"\n  - exec: {command: [sh], takes: prompt, gives: frames, name: denoise}":                                           `there is a stage "denoise"`,
		"\n  - exec: {command: [sh], takes: prompt, gives: frames}\n  - exec: {command: [sh], takes: frames, gives: frames}": `stage "exec" is in the list twice`,
		"\n  - exec: {command: [sh], takes: prompt, gives: frames}":                                                          "nothing in this job makes video",
	} {
		_, err := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\nx\n"), Out: t.TempDir(), Stages: list}.Unattached()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error\n%v\nwant %s", list, err, want)
		}
	}
}

// TestProgramNamedScore: jobs with a program called score still work, although there is now a stage of this name, unless they use both.
func TestProgramNamedScore(t *testing.T) {
	const program = "[encode_text, denoise, decode_vae, {exec: {name: score, command: [sh], takes: frames, gives: frames}}, encode_video"
	open := func(list string) error {
		_, err := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\nx\n"), Out: t.TempDir(), Stages: list}.Unattached()
		return err
	}
	if err := open(program + "]"); err != nil {
		t.Error(err)
	}
	if err := open(program + ", score]"); err == nil || !strings.Contains(err.Error(), `stage "score" is in the list twice`) {
		t.Error(err)
	}
}

// TestProgramSoak runs a program that misbehaves at random on many rows (LATENTBEAM_SOAK, default 200). No row is
// lost or doubled, every failure has its cause, and no process or file remains.
func TestProgramSoak(t *testing.T) {
	rows := 200
	if n, err := strconv.Atoi(os.Getenv("LATENTBEAM_SOAK")); err == nil {
		rows = n
	}
	transient := []string{"crash-once", "exit-once", "killed-once", "hang-once", "missing-once", "unknown-once", "twice-once", "other-once",
		"garbage-once", "strange-once", "retry-once", "children-once", "stdout"}
	lasting := map[string]string{"error": "the program says no", "shape": "answer: the frames are", "outside": "answer: the file outside",
		"link": "answer: the file link", "nofile": "answer: the file nofile", "exit": "crash: it ended with status 3"}
	words := slices.Sorted(func(yield func(string) bool) {
		for w := range lasting {
			if !yield(w) {
				return
			}
		}
	})
	chance := rand.New(rand.NewPCG(1, uint64(rows)))
	wants := map[string]string{} // prefix of the message by id; rows without an entry are done
	var table strings.Builder
	table.WriteString("id,prompt\n")
	for i := range rows {
		how := ""
		switch n := chance.IntN(100); {
		case n < 5:
			how = transient[chance.IntN(len(transient))]
		case n < 7:
			how = words[chance.IntN(len(words))]
			wants[fmt.Sprint(i)] = lasting[how]
		}
		if how != "" {
			how = " do:" + how
		}
		fmt.Fprintf(&table, "%d,circle number %d%s\n", i, i, how)
	}
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", table.String()), Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[" + jobtest.Program(t, "prompt", "frames", ", batch: 4, batch_invariant: true, heartbeat: 1s") + ", encode_video]",
		Sets: []string{"model=none", "output.write=[video]", "on_error.retries=2", "on_error.stop_after=100%", "resources.workers=2",
			"defaults.num_frames=1"}}
	began := time.Now()
	r := j.MustRun(t)
	t.Logf("%d rows in the table, %d of them failed, in %v", rows, r.Totals.Failed, time.Since(began).Round(time.Millisecond))
	seen := map[string]int{}
	for _, v := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
		seen[v.ID]++
	}
	for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		if want := wants[f.ID]; want == "" || !strings.HasPrefix(f.Message, want) || f.Stage != "exec" {
			t.Errorf("row %s (%s) failed: %s: %s: %s", f.ID, f.Prompt, f.Class, f.Stage, f.Message)
		}
		seen[f.ID]++
		delete(wants, f.ID)
	}
	for i := range rows {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("row %d is in the tables %d times", i, n)
		}
	}
	if len(wants) > 0 {
		t.Errorf("these rows should have failed, but did not: %v", wants)
	}
	if runtime.GOOS == "linux" {
		left := children(t)
		for tries := 0; len(left) > 0 && tries < 100; tries++ {
			time.Sleep(20 * time.Millisecond)
			left = children(t)
		}
		if len(left) > 0 {
			t.Errorf("processes of programs are still alive: %v", left)
		}
	}
}

// children lists child processes that are alive or have not been waited for.
func children(t *testing.T) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	jobtest.Must(t, err)
	for _, name := range all {
		data, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(data), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == fmt.Sprint(os.Getpid()) {
			found = append(found, string(data))
		}
	}
	return found
}

// TestWarningsAboutPrograms: a missing script and workers without devices are reported before the run and in it. A column that
// a program reads causes no warning, and an unknown column may be meant for the program.
func TestWarningsAboutPrograms(t *testing.T) {
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", "prompt,speed,stile\na,1,x\n"), Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[{exec: {command: [sh, no.sh, make.py, 'python x.py'], takes: prompt, gives: video, params: [prompt, " +
			"speed], workers: 2}}]",
		Sets: []string{"model=none", "output.write=[video]"}}
	opened, err := j.Open()
	jobtest.Must(t, err)
	p, err := opened.Plan(t.Context())
	opened.Close()
	all := strings.Join(p.Warnings, "\n")
	if err != nil || !strings.Contains(all, "there is no file no.sh in ") || !strings.Contains(all, "there is no file make.py") ||
		!strings.Contains(all, "set resources.workers: 2 too") || strings.Contains(all, "x.py") ||
		strings.Contains(all, "did you mean") || !strings.Contains(all, "to the output as they are: stile; ") {
		t.Errorf("got error %v, warnings\n%s", err, all)
	}
	j.Stages = strings.Replace(j.Stages, ", speed", "", 1)
	opened, err = j.Open()
	jobtest.Must(t, err)
	p, err = opened.Plan(t.Context())
	opened.Close()
	all = strings.Join(p.Warnings, "\n")
	if err != nil || !strings.Contains(all, "speed (did you mean seed?), stile; ") || !strings.Contains(all, "and params of exec that results depend on them") {
		t.Error(err, all)
	}
}
