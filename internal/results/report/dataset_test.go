package report

import (
	"os"
	"path/filepath"
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

// TestOwnReadmeStays: a README.md that somebody has written is not ours to replace.
func TestOwnReadmeStays(t *testing.T) {
	j := newJob(t, input{"a"})
	j.settle(t, 4, "a")
	must(t, os.WriteFile(filepath.Join(j.Output.Store.URL(), "README.md"), []byte("mine"), 0o644))
	j.written(t)
	if got, err := store.ReadFile(t.Context(), j.Output.Store, "README.md"); string(got) != "mine" || err != nil {
		t.Errorf("README.md is %q: %v", got, err)
	}
}

// TestFailuresHaveColumns: carried columns are columns of the failures table, and its parameters are those that the row
// was tried with, or the text of those that cannot be read.
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
