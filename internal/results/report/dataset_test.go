package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/store"
	"latentbeam/stages"
)

// TestDataset: loaders of datasets find the videos, their files and the columns of the input.
func TestDataset(t *testing.T) {
	j := newJob(t, input{"a", "bad", "b", "a"})
	j.settle(t, 4, "a", "b")
	j.written(t)
	type row struct {
		FileName string  `parquet:"file_name"`
		ID       string  `parquet:"id"`
		Color    *string `parquet:"color,optional"`
		N        *int64  `parquet:"n,optional"`
		Measured *string `parquet:"measured_color,optional"`
	}
	rows, err := parquet.ReadFile[row](filepath.Join(j.Output.Store.URL(), "metadata.parquet"))
	must(t, err)
	if len(rows) != 3 || rows[0].FileName != "videos/a.mp4" || rows[1].ID != "b" || *rows[2].N != 1 ||
		*rows[2].Color != "red" || *rows[1].Measured != "red" {
		t.Errorf("metadata.parquet has %+v", rows)
	}
	card := func() string {
		text, err := store.ReadFile(t.Context(), j.Output.Store, "README.md")
		must(t, err)
		return string(text)
	}
	if got := card(); !strings.Contains(got, "- metadata.parquet\n") || strings.Contains(got, "config_name: latents") {
		t.Errorf("the card is\n%s", got)
	}
	j.Keep[stages.KindVideo] = false
	j.written(t)
	if got := card(); strings.Contains(got, "metadata") || !strings.Contains(got, "config_name: latents\n  default: true") {
		t.Errorf("the card of latents is\n%s", got)
	}
	if there, err := store.Exists(t.Context(), j.Output.Store, "metadata.parquet"); there || err != nil {
		t.Errorf("metadata.parquet stays: %v", err)
	}
}

// TestCroissant: croissant.json describes each column of each table, and contains the licence of the model and whether the data are
// synthetic. It is not replaced after a user has removed its mark.
func TestCroissant(t *testing.T) {
	j := newJob(t, input{"a"})
	j.settle(t, 4, "a")
	j.Facts.Licence, j.Generates = "apache-2.0", true
	j.written(t)
	read := func() (d croissant) {
		text, err := store.ReadFile(t.Context(), j.Output.Store, croissantFile)
		must(t, err)
		must(t, json.Unmarshal(text, &d))
		return d
	}
	d := read()
	fields, sets := map[string]string{}, map[string]string{}
	for _, s := range d.Distribution {
		sets[s.ID] = s.Includes
	}
	for _, r := range d.RecordSet {
		for _, f := range r.Field {
			fields[f.ID] = f.DataType
			if sets[f.Source.FileSet.ID] == "" || r.ID+"/"+f.Source.Extract.Column != f.ID {
				t.Errorf("%s is read from %+v", f.ID, f.Source)
			}
		}
	}
	if d.Licence != "apache-2.0" || !slices.Equal(d.Keywords, []string{"synthetic"}) || d.Conforms != "http://mlcommons.org/croissant/1.1" ||
		sets["videos-files"] != "tables/videos/*.parquet" || sets["embeddings-files"] != "" || fields["videos/prompt"] != "sc:Text" ||
		fields["videos/seed"] != "cr:Int64" || fields["videos/fps"] != "cr:Float64" || fields["failures/message"] != "sc:Text" {
		t.Errorf("%+v, %v, %v, %v", d.Distribution, d.Licence, d.Keywords, fields)
	}
	j.Keep[stages.KindVideo] = false
	j.written(t)
	if d := read(); !slices.ContainsFunc(d.RecordSet, func(r recordSet) bool {
		return r.ID == "latents" && slices.ContainsFunc(r.Field, func(f tableField) bool {
			return f.Name == "vae_latent_shape" && f.IsArray && f.Shape == "-1" && f.DataType == "cr:Int64"
		})
	}) {
		t.Errorf("of latents: %+v", d.RecordSet)
	}
	must(t, os.WriteFile(filepath.Join(j.Output.Store.URL(), croissantFile), []byte("{}"), 0o644))
	j.written(t)
	if got, err := store.ReadFile(t.Context(), j.Output.Store, croissantFile); string(got) != "{}" || err != nil {
		t.Errorf("the card of the user is now %q: %v", got, err)
	}
}

// TestOwnReadmeStays: a README.md that a user has written is not replaced.
func TestOwnReadmeStays(t *testing.T) {
	j := newJob(t, input{"a"})
	j.settle(t, 4, "a")
	must(t, os.WriteFile(filepath.Join(j.Output.Store.URL(), "README.md"), []byte("mine"), 0o644))
	j.written(t)
	if got, err := store.ReadFile(t.Context(), j.Output.Store, "README.md"); string(got) != "mine" || err != nil {
		t.Errorf("README.md is %q: %v", got, err)
	}
}

// TestFailuresHaveColumns: carried columns are columns of the failures table. Its parameters are the values with which the row
// was tried, or the texts of values that cannot be parsed.
func TestFailuresHaveColumns(t *testing.T) {
	j := newJob(t, input{"a", "xx", "bad"})
	j.settle(t, 4, "a", "xx")
	j.written(t)
	files, err := filepath.Glob(filepath.Join(j.Output.Store.URL(), "tables/failures/*.parquet"))
	must(t, err)
	type row struct {
		ID         string  `parquet:"id"`
		Parameters string  `parquet:"parameters"`
		Color      *string `parquet:"color,optional"`
		N          *int64  `parquet:"n,optional"`
	}
	rows, err := parquet.ReadFile[row](files[0])
	must(t, err)
	if len(rows) != 2 || rows[0].ID != "xx" || rows[0].Color == nil || *rows[0].Color != "red" || *rows[0].N != 2 ||
		strings.Contains(rows[0].Parameters, `"id"`) || strings.Contains(rows[0].Parameters, `"prompt"`) ||
		!strings.Contains(rows[0].Parameters, `"width":16`) {
		t.Errorf("failures: %+v", rows)
	}
	if p := rows[1].Parameters; !strings.Contains(p, `"width":"many"`) || !strings.Contains(p, `"seed":"1e400"`) ||
		!strings.Contains(p, `"height":16`) || strings.Contains(p, "no parameter") {
		t.Errorf("parameters that cannot be read: %s", p)
	}
}
