package where

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
)

type row struct {
	ID       string   `parquet:"id"`
	Motion   *float64 `parquet:"measured_motion,optional"`
	Cuts     int64    `parquet:"measured_scene_cuts"`
	Selected bool     `parquet:"selected"`
	Tensor   []byte   `parquet:"tensor"`
	List     []int64  `parquet:"list,list"`
}

func table(t *testing.T) store.Store {
	t.Helper()
	d, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	low, high := 1.0, 6.5
	for i, rows := range [][]row{{{ID: "a", Motion: &high, Selected: true}, {ID: "b", Motion: &low, Selected: true}}, {{ID: "c", Selected: true}, {ID: "d", Motion: &high, Cuts: 2}}} {
		if _, err := w.Write(rows); err != nil || w.Flush() != nil {
			t.Fatal(i, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), store.Object{Name: "tables/videos/00000.parquet", Data: b.Bytes()}); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRows: rows are chosen by readings, with and without their prefix, and by other columns. A row without a value is not chosen.
func TestRows(t *testing.T) {
	s := table(t)
	for text, want := range map[string][]bool{
		"motion > 5.5 and selected":              {true, false, false, false},
		"measured_motion > 5.5":                  {true, false, false, true},
		"motion <= 5.5 or motion > 5.5":          {true, true, false, true},
		"scene_cuts == 0":                        {true, true, true, false},
		`id in ["a", "d"] && !selected`:          {false, false, false, true},
		`id matches "^[bc]$" ? true : false`:     {false, true, true, false},
		"scene_cuts * 2 > motion - 4.0 or false": {false, true, false, true},
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Rows(t.Context(), s, "tables/videos/00000.parquet"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

// TestChoose: the result has only the chosen rows, with all columns, and the names of their files.
func TestChoose(t *testing.T) {
	d, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	type video struct {
		Path   string   `parquet:"video_path"`
		Poster string   `parquet:"poster"`
		Score  *float64 `parquet:"measured_score,optional"`
	}
	one := 1.0
	var b bytes.Buffer
	w := parquet.NewGenericWriter[video](&b, parquet.KeyValueMetadata("latentbeam.x", "y"))
	if _, err := w.Write([]video{{"videos/a.mp4", "posters/a.jpg", &one}, {"videos/b.mp4", "", nil}, {"videos/a.mp4", "posters/a.jpg", &one}, {"../in/c.mp4", "posters/c.jpg", &one}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), store.Object{Name: Dataset, Data: b.Bytes()}); err != nil {
		t.Fatal(err)
	}
	f, err := Parse("score > 0")
	if err != nil {
		t.Fatal(err)
	}
	table, files, err := Choose(t.Context(), d, f)
	if err != nil || !slices.Equal(files, []string{"videos/a.mp4", "posters/a.jpg", "posters/c.jpg"}) {
		t.Fatalf("%v, %v", files, err)
	}
	rows, err := parquet.Read[video](bytes.NewReader(table), int64(len(table)))
	if err != nil || len(rows) != 3 || rows[1].Path != "videos/a.mp4" || *rows[2].Score != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
	p, err := parquet.OpenFile(bytes.NewReader(table), int64(len(table)))
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := p.Lookup("latentbeam.x"); v != "y" {
		t.Errorf("the metadata is %q", v)
	}
}

// TestMistakes: an error contains the expression and the columns that exist.
func TestMistakes(t *testing.T) {
	s := table(t)
	for text, want := range map[string]string{
		"":                   "unexpected token EOF",
		"motion >":           "unexpected token EOF",
		"moton > 1":          "no column moton; it has id, motion, scene_cuts, selected",
		"tensor == 1":        "no column tensor",
		"motion + 1":         "expected bool, but got float64",
		`motion > "high"`:    "mismatched types float64 and string",
		"list == 1":          "no column list",
		`selected + id == 1`: "mismatched types bool and string",
	} {
		f, err := Parse(text)
		if err == nil {
			_, err = f.Rows(t.Context(), s, "tables/videos/00000.parquet")
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--where") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
