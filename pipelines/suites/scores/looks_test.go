package scores

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/system/testaid"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas"
)

// filesOf returns the videos of an output by key.
func filesOf(t *testing.T, out string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, row := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
		all[row.Key] = row.VideoSHA256
	}
	return all
}

// TestScoresCostNoVideo: adding, changing and removing measures computes no video again. Readings of a finished video are equal to
// those of the frames that a run encodes.
func TestScoresCostNoVideo(t *testing.T) {
	testaid.Needs(t, "ffmpeg")
	const plain = "[encode_text, denoise, decode_vae, encode_video"
	prompts := jobtest.WriteTable(t, "p.csv", "prompt\na red circle\na blue square\na red circle\n")
	at := func(stages string) jobtest.Job {
		return jobtest.Job{Prompts: prompts, Out: filepath.Join(t.TempDir(), "out"), Stages: plain + stages, Sets: []string{"output.write=[video]", "defaults.height=64", "defaults.width=48", "defaults.num_frames=9"}}
	}
	once := at(", score, measure_shapes]")
	once.MustRun(t)
	want := columnsRead(t, once.Out)
	if len(want) != 10 {
		t.Fatalf("got readings %v", want)
	}
	j := at("]")
	j.MustRun(t)
	videos := filesOf(t, j.Out)
	for _, c := range []struct {
		stages string
		score  int64 // number of rows that the run measures
	}{{", score: {by: [motion]}]", 3}, {", score: {by: [motion, phash]}]", 3}, {", measure_shapes, score]", 3}, {", score: {black_level: 9}]", 3},
		{", score, measure_shapes]", 0}, {", score: {by: [phash]}]", 0}, {"]", 0}, {", score, measure_shapes]", 0}} {
		j.Stages = plain + strings.Replace(strings.Replace(c.stages, "score: ", "{score: ", 1), "}]", "}}]", 1)
		r := j.MustRun(t)
		if r.Plan.New != 0 || r.Done != 0 || r.Plan.Score != c.score {
			t.Errorf("%s: the plan has %d new rows, want 0, and %d rows to measure, want %d", c.stages, r.Plan.New, r.Plan.Score, c.score)
		}
		if now := filesOf(t, j.Out); len(now) != 3-1 || !equalMaps(now, videos) {
			t.Errorf("%s: the videos are %v, but were %v before", c.stages, now, videos)
		}
	}
	if got := columnsRead(t, j.Out); !equalMaps(got, want) {
		t.Errorf("measured later: got readings %v, want those of the run %v", got, want)
	}
	j.Computes(t, 0)
}

// equalMaps reports whether two maps are equal.
func equalMaps(a, b map[string]string) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// columnsRead returns the readings of the rows of a table of videos, one text for each name.
func columnsRead(t *testing.T, out string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range columnsOf(t, out, "videos") {
		if strings.HasPrefix(name, "measured_") {
			all[name] = ""
		}
	}
	for _, row := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
		var readings map[string]string
		jobtest.Must(t, json.Unmarshal([]byte(row.Readings), &readings))
		for name, value := range readings {
			all["measured_"+name] += value + " "
		}
	}
	return all
}

// TestScoresLoadNoModel: a run that computes only scores, or nothing, loads no weights of the model. A run with a new row loads
// them, and fails at once if it cannot.
func TestScoresLoadNoModel(t *testing.T) {
	testaid.Needs(t, "ffmpeg")
	n := 0
	spec := jobtest.CountLoads(&n)
	j := jobtest.NewJob(t, "prompt\na red circle\n")
	j.Replace = &spec
	run := func(stages string, loads, scored int64) {
		t.Helper()
		j.Stages, n = "[encode_text, denoise, decode_vae, encode_video"+stages, 0
		if r := j.MustRun(t); int64(n) != loads || r.Plan.Score != scored {
			t.Errorf("%s: the model was loaded %d times and %d rows were measured, want %d and %d", stages, n, r.Plan.Score, loads, scored)
		}
	}
	run("]", 1, 0)
	run("]", 0, 0)
	run(", {score: {by: [motion]}}]", 0, 1)
	opened, err := j.Open()
	jobtest.Must(t, err)
	opened.Close()
	if n != 0 {
		t.Errorf("the model was loaded %d times although nothing is to be computed", n)
	}
	j.Prompts = jobtest.WriteTable(t, "p.csv", "prompt\na red circle\na blue square\n")
	run(", {score: {by: [motion, phash]}}]", 1, 1)
}

// TestJobFileHasStagesThatLook: every run writes the lists of stages that only measure to job.json of the output, so that later runs
// find rows with such keys.
func TestJobFileHasStagesThatLook(t *testing.T) {
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\na red circle\n"), Out: filepath.Join(t.TempDir(), "out"), Sets: []string{"output.write=[video]"}}
	j.MustRun(t)
	name := filepath.Join(j.Out, jobfile.Name)
	read := func() (s jobfile.Start) {
		data, err := os.ReadFile(name)
		jobtest.Must(t, err)
		jobtest.Must(t, json.Unmarshal(data, &s))
		return s
	}
	if s := read(); s.Looks == nil || len(s.Looks) != 0 {
		t.Errorf("job.json has the lists %v, want an empty one", s.Looks)
	}
	s := read()
	s.Looks = nil
	s.YAML = strings.Replace(s.YAML, "encode_video]", "encode_video, measure_shapes]", 1)
	data, err := json.Marshal(s)
	jobtest.Must(t, err)
	data = bytes.Replace(data, []byte(`,"looks":null`), nil, 1)
	jobtest.Must(t, os.WriteFile(name, data, 0o644))
	j.Prompts = jobtest.WriteTable(t, "p.csv", "prompt\na red circle\na blue circle\n")
	for range 2 {
		j.MustRun(t)
		lists := read().Looks
		if len(lists) != 1 || !slices.EqualFunc(lists[0], keys.Looks{{Before: 4, Stage: "measure_shapes", Version: 1, Options: "{}"}}, func(a, b keys.Looked) bool {
			return a.Before == b.Before && a.Stage == b.Stage && a.Version == b.Version && a.Options == b.Options && len(a.Measures) == 1
		}) {
			t.Errorf("job.json has the lists %+v", lists)
		}
		j.Prompts = jobtest.WriteTable(t, "p.csv", "prompt\na red circle\na blue circle\nanother\n")
	}
}

// TestChangedLimits: stricter limits drop finished rows, and less strict ones restore them, without computing a video.
func TestChangedLimits(t *testing.T) {
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\na red circle\na blue square\n"), Out: filepath.Join(t.TempDir(), "out"), Sets: []string{"output.write=[video]"}}
	limited := func(min string) string {
		return "[encode_text, denoise, decode_vae, encode_video, {score: {by: [luminance]}}, {guard: {limits: {luminance: {min: " + min + "}}}}]"
	}
	j.Stages = limited("0")
	j.MustRun(t)
	var dark []float64
	for _, row := range readLuminance(t, j.Out) {
		dark = append(dark, *row)
	}
	slices.Sort(dark)
	if len(dark) != 2 || dark[0] == dark[1] {
		t.Fatalf("got luminance %v", dark)
	}
	for _, c := range []struct {
		min           string
		done, dropped int64
	}{{"255", 0, 2}, {number((dark[0] + dark[1]) / 2), 1, 1}, {"0", 2, 0}} {
		j.Stages = limited(c.min)
		r := j.MustRun(t)
		if r.Done != 0 || r.Plan.New != 0 || r.Totals.Done != c.done || r.Totals.Dropped != c.dropped {
			t.Errorf("limit from %s: got %d computed, %d new, %+v", c.min, r.Done, r.Plan.New, r.Totals)
		}
	}
}

// number formats a limit.
func number(v float64) string {
	js, _ := json.Marshal(v)
	return string(js)
}

// readLuminance returns the luminance of each video, nil for a video without a reading.
func readLuminance(t *testing.T, out string) (all []*float64) {
	t.Helper()
	rows, err := parquet.ReadFile[struct {
		Luminance *float64 `parquet:"measured_luminance,optional"`
	}](filepath.Join(out, "tables/videos/00000.parquet"))
	jobtest.Must(t, err)
	for _, r := range rows {
		all = append(all, r.Luminance)
	}
	return all
}

// TestVideosAreScored: a job can score an output or a folder without copying videos. A file that is not a video fails its row. The
// readings are equal to those of the job that made the videos, and a new measure reads only the videos.
func TestVideosAreScored(t *testing.T) {
	testaid.Needs(t, "ffmpeg")
	made := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "id,prompt\na,a red circle\nb,a blue square\n"), Out: filepath.Join(t.TempDir(), "made"), Sets: []string{"output.write=[video]"},
		Stages: "[encode_text, denoise, decode_vae, encode_video, {score: {by: [motion, phash]}}]"}
	made.MustRun(t)
	folder := t.TempDir()
	for i, row := range jobtest.ReadRows[schemas.VideoRow](t, made.Out, "videos") {
		data, err := os.ReadFile(filepath.Join(made.Out, row.VideoPath))
		jobtest.Must(t, err)
		jobtest.Must(t, os.WriteFile(filepath.Join(folder, string(rune('a'+i))+".mp4"), data, 0o644))
	}
	jobtest.Must(t, os.WriteFile(filepath.Join(folder, "c.mp4"), []byte("no video"), 0o644))
	want := columnsRead(t, made.Out)
	for _, from := range []string{made.Out, folder} {
		j := jobtest.Job{Input: "{videos: \"" + from + "\", carry: [\"*\"]}", Out: filepath.Join(t.TempDir(), "out"), Stages: "[{score: {by: [motion]}}]",
			Sets: []string{"model=none", "output.write=[video]", "on_error.stop_after=5"}}
		r := j.MustRun(t)
		if failed := int64(len(jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures"))); r.Totals.Done != 2 || r.Totals.Failed != failed || (failed == 1) != (from == folder) {
			t.Errorf("from %s: got totals %+v", from, r.Totals)
		}
		j.Stages = "[{score: {by: [motion, phash]}}]"
		if r := j.MustRun(t); r.Plan.New != 0 || r.Plan.Score != 2 {
			t.Errorf("from %s: the plan has %d new rows and %d rows to measure", from, r.Plan.New, r.Plan.Score)
		}
		if got := columnsRead(t, j.Out); got["measured_motion"] != want["measured_motion"] || got["measured_phash"] != want["measured_phash"] {
			t.Errorf("from %s: got readings %v, but the job has %v", from, got, want)
		}
		for _, row := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
			data, err := os.ReadFile(filepath.Join(j.Out, row.VideoPath))
			if err != nil || jobtest.Digest(data) != row.VideoSHA256 || !strings.HasPrefix(row.VideoPath, "..") {
				t.Errorf("the table names %s: %v", row.VideoPath, err)
			}
		}
		if copies, _ := filepath.Glob(filepath.Join(j.Out, "videos/*/*")); len(copies) > 0 {
			t.Errorf("the output has copies of videos: %v", copies)
		}
		j.Computes(t, 0)
	}
}

// TestBestOfSamples: the tables mark the best sample of each prompt, or the lowest if the job says so. copy and export can choose
// it.
func TestBestOfSamples(t *testing.T) {
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "prompt\na red circle\na blue square\n"), Out: filepath.Join(t.TempDir(), "out"),
		Sets:   []string{"output.write=[video]", "defaults.num_videos_per_prompt=3", "select={best: 1, of: prompt, by: luminance}"},
		Stages: "[encode_text, denoise, decode_vae, encode_video, {score: {by: [luminance]}}]"}
	for _, by := range []string{"luminance", "-luminance"} {
		j.Sets[2] = "select={best: 2, of: prompt, by: " + by + "}"
		j.MustRun(t)
		rows, err := parquet.ReadFile[struct {
			Prompt    string   `parquet:"prompt"`
			Luminance *float64 `parquet:"measured_luminance,optional"`
			Selected  *bool    `parquet:"selected,optional"`
		}](filepath.Join(j.Out, "metadata.parquet"))
		jobtest.Must(t, err)
		chosen := map[string]int{}
		for _, r := range rows {
			better := 0
			for _, o := range rows {
				if o.Prompt == r.Prompt && (*o.Luminance > *r.Luminance) == (by == "luminance") && *o.Luminance != *r.Luminance {
					better++
				}
			}
			if want := better < 2; r.Selected == nil || *r.Selected != want {
				t.Errorf("by %s: the video of %q with luminance %v is selected: %v, want %v", by, r.Prompt, *r.Luminance, r.Selected, want)
			} else if want {
				chosen[r.Prompt]++
			}
		}
		if len(rows) != 6 || len(chosen) != 2 || chosen["a red circle"] != 2 {
			t.Errorf("by %s: of %d rows, chosen are %v", by, len(rows), chosen)
		}
	}
}

// TestSelectedInTables: every table with results has a column for selected rows, and is updated if the selection changes. export can
// choose the rows by --where.
func TestSelectedInTables(t *testing.T) {
	table := jobtest.WriteTable(t, "clips.csv", "id,path,caption,num_frames\na,"+jobtest.Clips+"square.y4m,one,1\nb,"+jobtest.Clips+"triangle.png,one,1\nc,"+jobtest.Clips+"disc,two,1\n")
	j := jobtest.Job{Input: "{media: \"" + table + "\"}", Out: filepath.Join(t.TempDir(), "out"), Stages: "[{score: {by: [luminance]}}, encode_vae, encode_text]",
		Sets: []string{"output.write=[latents, embeddings]", "defaults.height=64", "defaults.width=64", ""}}
	type row struct {
		ID        string   `parquet:"id"`
		Selected  *bool    `parquet:"selected,optional"`
		Luminance *float64 `parquet:"measured_luminance,optional"`
	}
	for _, by := range []string{"luminance", "-luminance"} {
		j.Sets[3] = "select={best: 1, of: prompt, by: " + by + "}"
		j.MustRun(t)
		for _, name := range []string{"latents", "embeddings"} {
			rows, err := parquet.ReadFile[row](filepath.Join(j.Out, "tables", name, "00000.parquet"))
			jobtest.Must(t, err)
			if len(rows) != 3 || *rows[0].Luminance == *rows[1].Luminance {
				t.Fatalf("table %s: got rows %+v", name, rows)
			}
			first := (*rows[0].Luminance > *rows[1].Luminance) == (by == "luminance")
			for i, want := range []bool{first, !first, true} {
				if got := rows[i].Selected; got == nil || *got != want {
					t.Errorf("table %s, by %s: row %s is selected: %v, want %v", name, by, rows[i].ID, got, want)
				}
			}
		}
		s, err := open.Existing(t.Context(), j.Out)
		jobtest.Must(t, err)
		f, err := where.Parse("selected and luminance >= 0")
		jobtest.Must(t, err)
		if takes, err := f.Rows(t.Context(), s, "tables/latents/00000.parquet"); err != nil || len(takes) != 3 || !takes[2] || takes[0] == takes[1] {
			t.Errorf("export --where chooses %v, %v", takes, err)
		}
	}
	j.Sets = j.Sets[:3]
	j.MustRun(t)
	if columns := columnsOf(t, j.Out, "latents"); slices.Contains(columns, "selected") {
		t.Errorf("a job that selects nothing has the columns %v", columns)
	}
}
