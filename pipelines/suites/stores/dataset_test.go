package stores

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/table/tabletest"
	"latentbeam/schemas"
)

// hfMedia is a column of media in the form of Hugging Face.
type hfMedia struct {
	Bytes []byte `parquet:"bytes,optional"`
	Path  string `parquet:"path,optional"`
}

type hfRow struct {
	Video hfMedia `parquet:"video"`
	Text  string  `parquet:"text"`
	Label int64   `parquet:"label"`
}

type binaryRow struct {
	Image []byte `parquet:"image"`
	Text  string `parquet:"text"`
	Label int64  `parquet:"label"`
}

// fileNameRow is a row of metadata.parquet.
type fileNameRow struct {
	FileName string `parquet:"file_name"`
	Text     string `parquet:"text"`
	Label    int64  `parquet:"label"`
}

// datasets writes two media files in every layout below a directory, and returns the values for input.media.
func datasets(t *testing.T, dir string) (layouts map[string]string) {
	t.Helper()
	video, image := string(jobtest.ReadFile(t, jobtest.Clips+"square.y4m")), string(jobtest.ReadFile(t, jobtest.Clips+"triangle.png"))
	jobtest.WriteText(t, dir+"/files/a.y4m", video)
	jobtest.WriteText(t, dir+"/files/a.txt", "a blue square")
	jobtest.WriteText(t, dir+"/files/b.png", image)
	jobtest.WriteText(t, dir+"/files/b.txt", "a green triangle")
	for ext, text := range map[string]string{
		".csv": "file_name,text,label\nclips/a.y4m,a blue square,7\nclips/b.png,a green triangle,8\n",
		".jsonl": `{"video_file_name": "clips/a.y4m", "text": "a blue square", "label": 7}` + "\n" +
			`{"video_file_name": "clips/b.png", "text": "a green triangle", "label": 8}`,
		".parquet": string(jobtest.ReadFile(t, tabletest.WriteFile(t, []fileNameRow{{"clips/a.y4m", "a blue square", 7},
			{"clips/b.png", "a green triangle", 8}}))),
	} {
		jobtest.WriteText(t, dir+"/hf"+ext+"/metadata"+ext, text)
		jobtest.WriteText(t, dir+"/hf"+ext+"/clips/a.y4m", video)
		jobtest.WriteText(t, dir+"/hf"+ext+"/clips/b.png", image)
	}
	jobtest.WriteText(t, dir+"/struct.parquet", string(jobtest.ReadFile(t,
		tabletest.WriteFile(t, []hfRow{{hfMedia{[]byte(video), "a.y4m"}, "a blue square", 7},
			{hfMedia{[]byte(image), "b.png"}, "a green triangle", 8}}, parquet.MaxRowsPerRowGroup(1)))))
	jobtest.WriteText(t, dir+"/binary.parquet", string(jobtest.ReadFile(t, tabletest.WriteFile(t, []binaryRow{{[]byte(video), "a blue square", 7},
		{[]byte(image), "a green triangle", 8}}))))
	jobtest.WriteTar(t, dir+"/shard-008.tar", "./", "", "x/a.txt", "a blue square\n", "x/a.json", `{"label": 7, "width": 3000}`, "x/a.y4m", video)
	jobtest.WriteTar(t, dir+"/shard-009.tar", "b.cls", "3", "b.png", image, "b.json", `{"caption": "a green triangle", "label": 8}`)
	return map[string]string{"hf csv": "/hf.csv/", "hf jsonl": "/hf.jsonl/", "hf parquet": "/hf.parquet/",
		"parquet of structs": "/struct.parquet",
		"parquet of bytes":   "/binary.parquet", "webdataset": "/shard-{008..009}.tar"}
}

// TestDatasets: media have the same keys as plain files in every layout of data sets, on disk and in a bucket. Columns and
// fields are carried with their types.
func TestDatasets(t *testing.T) {
	dir := t.TempDir()
	layouts := datasets(t, dir)
	files := jobtest.MediaJob(t, fmt.Sprintf("%q", dir+"/files/*"), jobtest.EncodeBoth, "defaults.num_frames=1")
	files.MustRun(t)
	want := map[string]string{}
	for _, row := range jobtest.ReadRows[schemas.LatentRow](t, files.Out, "latents") {
		want[row.Caption] = row.VAELatentSHA256
	}
	server := jobtest.Buckets["s3"](t)
	server.Use(t)
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	upload(t, dir, "s3://bucket/in")
	for what, at := range layouts {
		j := files
		for _, root := range []string{dir, "s3://bucket/in"} {
			j.Input = fmt.Sprintf("{media: %q}", root+at)
			unchanged(t, what+" in "+root, j)
		}
		j.Input, j.Out = fmt.Sprintf("{media: %q}", dir+at), filepath.Join(t.TempDir(), "out")
		if r := j.MustRun(t); r.Done != 2 {
			t.Errorf("%s: got %d rows done", what, r.Done)
		}
		paths, err := filepath.Glob(j.Out + "/tables/latents/*.parquet")
		jobtest.Must(t, err)
		rows, err := parquet.ReadFile[struct {
			ID      string `parquet:"id"`
			Caption string `parquet:"caption"`
			SHA     string `parquet:"vae_latent_sha256"`
			File    string `parquet:"file_name"`
			Label   int64  `parquet:"label"`
		}](paths[0])
		jobtest.Must(t, err)
		for i, row := range rows {
			if row.SHA != want[row.Caption] || row.SHA == "" || row.Label != int64(7+i) || strings.Contains(row.File, "#") {
				t.Errorf("%s: got row %+v, want %v", what, row, want)
			}
		}
		if what == "webdataset" && (rows[0].ID != "x/a" || rows[0].File != dir+"/shard-008.tar/x/a.y4m") ||
			what == "hf csv" && rows[1].ID != "clips/b" {
			t.Errorf("%s: got rows %+v", what, rows)
		}
	}
}

// TestDatasetMistakes: an invalid member is a row of the failures table that names the file and the member.
func TestDatasetMistakes(t *testing.T) {
	dir := t.TempDir()
	jobtest.WriteTar(t, dir+"/bad.tar", "a.txt", "x", "a.pdf", "x", "b.mp4", "", "c.png", "no png", "d.png", "x", "d.jpg", "x",
		"e.png", string(jobtest.ReadFile(t, jobtest.Clips+"triangle.png")), "f.json", "[1]", "f.png", "x")
	bad := tabletest.WriteFile(t, []hfRow{{hfMedia{nil, "nowhere.png"}, "x", 7}, {hfMedia{[]byte("no png at all"), "g.png"}, "y", 8},
		{hfMedia{[]byte("no y4m"), "h.y4m"}, "z", 8}})
	j := jobtest.MediaJob(t, fmt.Sprintf("[%q, %q]", dir+"/bad.tar", bad), "[encode_vae]", "output.write=[latents]", "defaults.num_frames=1",
		"on_error.stop_after=100%")
	if r := j.MustRun(t); r.Done != 1 {
		t.Errorf("got %d rows done, want 1", r.Done)
	}
	var all []string
	for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		all = append(all, f.Message)
	}
	got := strings.Join(all, "\n")
	for _, want := range []string{
		"no video or image that can be read, only a.txt, a.pdf", dir + "/bad.tar/b.mp4", dir + "/bad.tar/c.png", "two of image: d.png, d.jpg",
		"f.json is not a JSON object", "read nowhere.png: no such file", bad + "/g.png", bad + "/h.y4m",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no failure says %q:\n%s", want, got)
		}
	}
	for _, temporary := range []string{"latentbeam-media-", "#"} {
		if strings.Contains(got, temporary) {
			t.Errorf("a message contains the temporary path %s:\n%s", temporary, got)
		}
	}
	whole := jobtest.ReadFile(t, dir+"/bad.tar")
	jobtest.WriteText(t, dir+"/cut.tar", string(whole[:5*1024+100]))
	jobtest.WriteText(t, dir+"/prompts.tar.gz", "x")
	jobtest.WriteText(t, dir+"/short.tar", string(whole[:len(whole)-1024]))
	for input, want := range map[string]string{
		"{media: " + dir + "/cut.tar}":                  "the tar is cut off behind d.jpg",
		"{media: " + dir + "/short.tar}":                "cut off behind f.png: it has no end mark",
		"{media: " + dir + "/prompts.tar.gz}":           "cannot be read out of a packed tar",
		fmt.Sprintf("{media: %q}", dir+"/s-{1..3}.tar"): "s-1.tar: no such file",
	} {
		j.Input, j.Out = input, filepath.Join(t.TempDir(), "out")
		if _, err := j.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", input, err, want)
		}
	}
	j = jobtest.Job{Prompts: dir + "/bad.tar", Out: j.Out}
	if _, err := j.Run(); err == nil || !strings.Contains(err.Error(), "name it in input.media") {
		t.Errorf("prompts in a tar: got error %v", err)
	}
}
