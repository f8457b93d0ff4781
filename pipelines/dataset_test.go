package pipelines_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/table/tabletest"
	"latentbeam/schemas"
)

// hfMedia is a column of media as Hugging Face writes it.
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

// writeTar makes a tar of pairs of a name and a content.
func writeTar(t *testing.T, path string, members ...string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		must(t, w.WriteHeader(&tar.Header{Name: members[i], Mode: 0o644, Size: int64(len(members[i+1]))}))
		_, err := w.Write([]byte(members[i+1]))
		must(t, err)
	}
	must(t, w.Close())
	putFile(t, path, b.String())
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// datasets writes two media in every layout below a directory, and returns the values of input.media.
func datasets(t *testing.T, dir string) (layouts map[string]string) {
	t.Helper()
	video, image := string(content(t, clips+"square.y4m")), string(content(t, clips+"triangle.png"))
	putFile(t, dir+"/files/a.y4m", video)
	putFile(t, dir+"/files/a.txt", "a blue square")
	putFile(t, dir+"/files/b.png", image)
	putFile(t, dir+"/files/b.txt", "a green triangle")
	for ext, text := range map[string]string{
		".csv": "file_name,text,label\nclips/a.y4m,a blue square,7\nclips/b.png,a green triangle,8\n",
		".jsonl": `{"video_file_name": "clips/a.y4m", "text": "a blue square", "label": 7}` + "\n" +
			`{"video_file_name": "clips/b.png", "text": "a green triangle", "label": 8}`,
		".parquet": string(content(t, tabletest.WriteFile(t, []fileNameRow{{"clips/a.y4m", "a blue square", 7},
			{"clips/b.png", "a green triangle", 8}}))),
	} {
		putFile(t, dir+"/hf"+ext+"/metadata"+ext, text)
		putFile(t, dir+"/hf"+ext+"/clips/a.y4m", video)
		putFile(t, dir+"/hf"+ext+"/clips/b.png", image)
	}
	putFile(t, dir+"/struct.parquet", string(content(t,
		tabletest.WriteFile(t, []hfRow{{hfMedia{[]byte(video), "a.y4m"}, "a blue square", 7},
			{hfMedia{[]byte(image), "b.png"}, "a green triangle", 8}}, parquet.MaxRowsPerRowGroup(1)))))
	putFile(t, dir+"/binary.parquet", string(content(t, tabletest.WriteFile(t, []binaryRow{{[]byte(video), "a blue square", 7},
		{[]byte(image), "a green triangle", 8}}))))
	writeTar(t, dir+"/shard-008.tar", "./", "", "x/a.txt", "a blue square\n", "x/a.json", `{"label": 7, "width": 3000}`, "x/a.y4m", video)
	writeTar(t, dir+"/shard-009.tar", "b.cls", "3", "b.png", image, "b.json", `{"caption": "a green triangle", "label": 8}`)
	return map[string]string{"hf csv": "/hf.csv/", "hf jsonl": "/hf.jsonl/", "hf parquet": "/hf.parquet/",
		"parquet of structs": "/struct.parquet",
		"parquet of bytes":   "/binary.parquet", "webdataset": "/shard-{008..009}.tar"}
}

// TestDatasets: media have the keys of plain files in every layout of data sets, on disk and in a bucket; columns and
// fields are carried with their types.
func TestDatasets(t *testing.T) {
	dir := t.TempDir()
	layouts := datasets(t, dir)
	files := encodes(t, fmt.Sprintf("%q", dir+"/files/*"), forward, "defaults.num_frames=1")
	files.mustRun(t)
	want := map[string]string{}
	for _, row := range readRows[schemas.LatentRow](t, files.out, "latents") {
		want[row.Caption] = row.VAELatentSHA256
	}
	server := services["s3"](t)
	server.Use(t)
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	upload(t, dir, "s3://bucket/in")
	for what, at := range layouts {
		j := files
		for _, root := range []string{dir, "s3://bucket/in"} {
			j.input = fmt.Sprintf("{media: %q}", root+at)
			unchanged(t, what+" in "+root, j)
		}
		j.input, j.out = fmt.Sprintf("{media: %q}", dir+at), filepath.Join(t.TempDir(), "out")
		if r := j.mustRun(t); r.Done != 2 {
			t.Errorf("%s: %d done", what, r.Done)
		}
		paths, err := filepath.Glob(j.out + "/tables/latents/*.parquet")
		must(t, err)
		rows, err := parquet.ReadFile[struct {
			ID      string `parquet:"id"`
			Caption string `parquet:"caption"`
			SHA     string `parquet:"vae_latent_sha256"`
			File    string `parquet:"file_name"`
			Label   int64  `parquet:"label"`
		}](paths[0])
		must(t, err)
		for i, row := range rows {
			if row.SHA != want[row.Caption] || row.SHA == "" || row.Label != int64(7+i) || strings.Contains(row.File, "#") {
				t.Errorf("%s: %+v, want %v", what, row, want)
			}
		}
		if what == "webdataset" && (rows[0].ID != "x/a" || rows[0].File != dir+"/shard-008.tar/x/a.y4m") ||
			what == "hf csv" && rows[1].ID != "clips/b" {
			t.Errorf("%s: %+v", what, rows)
		}
	}
}

// TestDatasetMistakes: what is wrong with a member is a row of the failures table with the names of file and member.
func TestDatasetMistakes(t *testing.T) {
	dir := t.TempDir()
	writeTar(t, dir+"/bad.tar", "a.txt", "x", "a.pdf", "x", "b.mp4", "", "c.png", "no png", "d.png", "x", "d.jpg", "x",
		"e.png", string(content(t, clips+"triangle.png")), "f.json", "[1]", "f.png", "x")
	bad := tabletest.WriteFile(t, []hfRow{{hfMedia{nil, "nowhere.png"}, "x", 7}, {hfMedia{[]byte("no png at all"), "g.png"}, "y", 8},
		{hfMedia{[]byte("no y4m"), "h.y4m"}, "z", 8}})
	j := encodes(t, fmt.Sprintf("[%q, %q]", dir+"/bad.tar", bad), "[encode_vae]", "output.write=[latents]", "defaults.num_frames=1",
		"on_error.stop_after=100%")
	if r := j.mustRun(t); r.Done != 1 {
		t.Errorf("%d done, want 1", r.Done)
	}
	var all []string
	for _, f := range readRows[schemas.FailureRow](t, j.out, "failures") {
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
			t.Errorf("a message has %s:\n%s", temporary, got)
		}
	}
	whole := content(t, dir+"/bad.tar")
	putFile(t, dir+"/cut.tar", string(whole[:5*1024+100]))
	putFile(t, dir+"/prompts.tar.gz", "x")
	putFile(t, dir+"/short.tar", string(whole[:len(whole)-1024]))
	for input, want := range map[string]string{
		"{media: " + dir + "/cut.tar}":                  "the tar is cut off behind d.jpg",
		"{media: " + dir + "/short.tar}":                "cut off behind f.png: it has no end mark",
		"{media: " + dir + "/prompts.tar.gz}":           "cannot be read out of a packed tar",
		fmt.Sprintf("{media: %q}", dir+"/s-{1..3}.tar"): "s-1.tar: no such file",
	} {
		j.input, j.out = input, filepath.Join(t.TempDir(), "out")
		if _, err := j.run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", input, err, want)
		}
	}
	j = job{prompts: dir + "/bad.tar", out: j.out}
	if _, err := j.run(); err == nil || !strings.Contains(err.Error(), "name it in input.media") {
		t.Errorf("prompts in a tar: %v", err)
	}
}
