package read

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/tabletest"
)

// under writes a file below a folder.
func under(t *testing.T, root, name, text string) string {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHivePartitions: the names of folders are columns, as pyarrow, DuckDB and Spark read them: numbers are numbers, a column of
// the file wins, and folders that are not right above the file are none. A folder is an input.
func TestHivePartitions(t *testing.T) {
	root := filepath.Join(t.TempDir(), "run=7", "data")
	type row struct {
		Prompt string `parquet:"prompt"`
	}
	table, err := os.ReadFile(tabletest.WriteFile(t, []row{{"a"}, {"b"}}))
	if err != nil {
		t.Fatal(err)
	}
	under(t, root, "split=train/num_inference_steps=3/part-0.parquet", string(table))
	under(t, root, "split=a%2Fb/num_inference_steps=04/part-0.parquet", string(table))
	under(t, root, "split=__HIVE_DEFAULT_PARTITION__/part-0.parquet", string(table))
	under(t, root, "_SUCCESS", "")
	under(t, root, "_old/part-0.parquet", string(table))
	under(t, root, "split=x/t.csv", "prompt\nof another format\n")
	var got []string
	o := Options{Uses: &Uses{}}
	for _, rec := range readAll(t, root, o) {
		s := strings.TrimPrefix(summary(rec), root+"/")
		if s = s[strings.IndexByte(s, '"'):]; rec.Bad == nil {
			got = append(got, s)
		}
	}
	want := []string{`"a" extra={"split":null}`, `"b" extra={"split":null}`, `"a" steps=4 extra={"split":"a/b"}`,
		`"b" steps=4 extra={"split":"a/b"}`, `"a" steps=3 extra={"split":"train"}`, `"b" steps=3 extra={"split":"train"}`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, use := range o.Uses.Columns() {
		if want := use.Column != "prompt"; use.Folder != want {
			t.Errorf("%+v", use)
		}
	}
	csv := under(t, root, "seed=5/cfg=2/t.csv", "prompt,seed\na,1\nb,\n")
	expect(t, readAll(t, csv, Options{}), `t.csv:2 "a" seed=1 cfg=2 extra={"cfg":2}`, `t.csv:3 "b" cfg=2 extra={"cfg":2}`)
	unmapped := Options{Columns: map[string]string{"guidance_scale": "", "prompt": "split"}}
	lines := under(t, root, "split=5/cfg=2/t.jsonl", `{"prompt": "a", "cfg": 3}`+"\n")
	if _, err := Open([]string{lines}, unmapped); err == nil || !strings.Contains(err.Error(), `no key "split"`) {
		t.Errorf("a prompt of the folders: %v", err)
	}
	expect(t, readAll(t, lines, Options{Columns: map[string]string{"guidance_scale": "", "seed": "split"}}), `t.jsonl:1 "a" seed=5 extra={"cfg":3}`)
}

// TestFolders: a folder without tables, and one that is an output, say what to do.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	under(t, root, "none/a.mp4", "")
	under(t, root, "out/job.json", "")
	under(t, root, "out/ledger/00000", "")
	under(t, root, "data/a.csv", "prompt\na\n")
	under(t, root, "data/more/out/job.json", "")
	under(t, root, "data/more/out/ledger/00000", "")
	under(t, root, "data/more/out/tables/latents/00000.parquet", "")
	under(t, root, "out/tables/latents/00000.parquet", "")
	under(t, root, "lines/a.jsonl", `{"prompt": "a"}`)
	for folder, want := range map[string]string{"none": "holds no parquet, csv or jsonl file", "out": "several tables"} {
		if _, err := Open([]string{filepath.Join(root, folder)}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	expect(t, readAll(t, filepath.Join(root, "lines"), Options{}), `a.jsonl:1 "a"`)
	expect(t, readAll(t, filepath.Join(root, "data"), Options{}), `a.csv:2 "a"`)
}

// TestPairs: a list of media and a list of captions are a table; they have the same number of lines.
func TestPairs(t *testing.T) {
	root := t.TempDir()
	list := under(t, root, "videos.txt", "videos/a.mp4\nvideos/b.mp4\r\n\nvideos/c.mp4\n\n")
	under(t, root, "prompts.txt", "\xef\xbb\xbfone\n\n\n# three\n")
	var got []string
	for _, rec := range readAll(t, list, Options{Media: true}) {
		got = append(got, rec.Row.Media+"="+rec.Row.Prompt+" "+rec.Row.Source)
	}
	if s := strings.Join(got, "|"); s != "videos/a.mp4=one videos.txt:1|videos/b.mp4= videos.txt:2|videos/c.mp4=# three videos.txt:4" {
		t.Error(s)
	}
	under(t, root, "prompts.txt", "one\n")
	if _, err := Open([]string{list}, Options{Media: true}); err == nil || !strings.Contains(err.Error(), "it has 4 lines, and "+root+"/prompts.txt has 1") {
		t.Error(err)
	}
}

// TestNullMedia: a cell without bytes and without a path says that the media is missing, and which.
func TestNullMedia(t *testing.T) {
	type file struct {
		Bytes []byte  `parquet:"bytes,optional"`
		Path  *string `parquet:"path,optional"`
	}
	type row struct {
		Video *file  `parquet:"video,optional"`
		Text  string `parquet:"text"`
	}
	there := "x.mp4"
	path := tabletest.WriteFile(t, []row{{&file{[]byte("v"), &there}, "a"}, {nil, "b"}})
	for i, rec := range readAll(t, path, Options{Media: true}) {
		_, err := source.MediaDigest(t.Context(), rec.Row.Media)
		missing := err != nil && strings.Contains(err.Error(), `column "video" is null: the media of this row is missing`)
		if missing != (i == 1) {
			t.Errorf("row %d, %s: %v", i+1, rec.Row.Media, err)
		}
	}
}
