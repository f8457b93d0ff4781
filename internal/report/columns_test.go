package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/ledger"
	"latentbeam/internal/store"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// carry shows the outcomes of rows with these carried columns to the columns and returns them.
func carry(t *testing.T, c *columns, extras ...string) (out []*outcome) {
	t.Helper()
	for _, extra := range extras {
		o := &outcome{Element: &stages.Element{Row: schemas.PromptRow{Extra: extra}}, status: ledger.Done}
		must(t, c.see(o))
		out = append(out, o)
	}
	return out
}

func TestColumnsHaveTypes(t *testing.T) {
	var c columns
	rows := carry(t, &c, `{"i":1,"r":1,"b":true,"s":"x","mixed":1,"none":null,"key":"k","Key":2,"o":{"a":1},"big":1e400}`,
		"", `{"i":-5,"r":0.5,"b":null,"s":"","mixed":"one","none":null}`)
	rows[0].result.Readings = map[string]string{"n": "7", "prompt": "1984", "r": "0.3100", "s": "seen"}
	must(t, c.see(rows[0]))
	must(t, c.see(&outcome{Element: rows[0].Element, result: schemas.Result{Readings: map[string]string{"r": "nan", "n": "-2"}}}))
	want := []write.Column{{Name: "i", Type: write.Integer}, {Name: "r", Type: write.Real}, {Name: "b", Type: write.Boolean},
		{Name: "s", Type: write.Text}, {Name: "mixed", Type: write.Text}, {Name: "none", Type: write.Nothing},
		{Name: "input_key", Type: write.Text}, {Name: "input_Key_2", Type: write.Integer}, {Name: "o", Type: write.Text},
		{Name: "big", Type: write.Text}, {Name: "measured_n", Type: write.Integer}, {Name: "measured_prompt", Type: write.Text},
		{Name: "measured_r", Type: write.Real}, {Name: "measured_s", Type: write.Text}}
	if !slices.Equal(c.list, want) {
		t.Errorf("columns\n%+v, want\n%+v", c.list, want)
	}
	values, err := c.values(rows[0])
	must(t, err)
	text := func(i int) string { return *values[i].(*string) }
	if *values[0].(*int64) != 1 || *values[1].(*float64) != 1 || !*values[2].(*bool) || text(3) != "x" ||
		text(4) != "1" || values[5] != nil || text(8) != `{"a":1}` || text(9) != "1e400" || *values[10].(*int64) != 7 || text(11) != "1984" ||
		*values[12].(*float64) != 0.31 || text(13) != "seen" {
		t.Errorf("values %v", values)
	}
	values, err = c.values(rows[1])
	must(t, err)
	if slices.ContainsFunc(values, func(v any) bool { return v != nil }) {
		t.Errorf("a row without columns has %v", values)
	}
}

// TestDataset: loaders of datasets find the videos, their files and the columns of the input.
func TestDataset(t *testing.T) {
	j := newJob(t, input{"a", "bad", "b", "a"})
	j.settle(t, 4, "a", "b")
	j.write(t)
	type row struct {
		FileName string  `parquet:"file_name"`
		ID       string  `parquet:"id"`
		Color    *string `parquet:"color,optional"`
		N        *int64  `parquet:"n,optional"`
		Measured *string `parquet:"measured_color,optional"`
	}
	rows, err := parquet.ReadFile[row](filepath.Join(j.Store.URL(), "metadata.parquet"))
	must(t, err)
	if len(rows) != 3 || rows[0].FileName != "videos/a.mp4" || rows[1].ID != "b" || *rows[2].N != 1 ||
		*rows[2].Color != "red" || *rows[1].Measured != "red" {
		t.Errorf("metadata.parquet has %+v", rows)
	}
	card := func() string {
		text, err := store.ReadFile(t.Context(), j.Store, "README.md")
		must(t, err)
		return string(text)
	}
	if got := card(); !strings.Contains(got, "- metadata.parquet\n") || strings.Contains(got, "config_name: latents") {
		t.Errorf("the card is\n%s", got)
	}
	j.Keep[stages.KindVideo] = false
	j.write(t)
	if got := card(); strings.Contains(got, "metadata") || !strings.Contains(got, "config_name: latents\n  default: true") {
		t.Errorf("the card of latents is\n%s", got)
	}
	if there, err := store.Exists(t.Context(), j.Store, "metadata.parquet"); there || err != nil {
		t.Errorf("metadata.parquet stays: %v", err)
	}
}

// TestOwnReadmeStays: a README.md that somebody has written is not ours to replace.
func TestOwnReadmeStays(t *testing.T) {
	j := newJob(t, input{"a"})
	j.settle(t, 4, "a")
	must(t, os.WriteFile(filepath.Join(j.Store.URL(), "README.md"), []byte("mine"), 0o644))
	j.write(t)
	if got, err := store.ReadFile(t.Context(), j.Store, "README.md"); string(got) != "mine" || err != nil {
		t.Errorf("README.md is %q: %v", got, err)
	}
}

// TestFailuresHaveColumns: carried columns are columns of the failures table, and its parameters are those that the row
// was tried with, or the text of those that cannot be read.
func TestFailuresHaveColumns(t *testing.T) {
	j := newJob(t, input{"a", "xx", "bad"})
	j.settle(t, 4, "a", "xx")
	j.write(t)
	files, err := filepath.Glob(filepath.Join(j.Store.URL(), "tables/failures/*.parquet"))
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
