package read

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/typed"
	"latentbeam/internal/table/write"
)

// rowOf is row i of every file in testdata/foreign.
func rowOf(file string, i int) string {
	seed, cat := fmt.Sprintf(" seed=%d", i), "null"
	if i%3 == 0 {
		seed = ""
	}
	if i%2 == 0 {
		cat = `"x"`
	}
	return fmt.Sprintf(`%s:row %d "a red circle %d" id=%d%s h=64 w=128 fps=8 cfg=4.5 extra={"cat":%s,"tags":[%d,%d],`+
		`"st":{"a":%d,"b":"str"},"mp":{"k":%d},"d":"2024-02-03","ts":"2024-02-03T04:05:06.789Z","tm":"01:02:03",`+
		`"flag":true,"u":"123e4567-e89b-12d3-a456-426614174000","big":12345678901234567890.123,`+
		`"deep":[{"x":[1,2]},{"x":null}]}`, file, i+1, i, i, seed, cat, i, i+1, i, i)
}

func TestFilesOfOtherWriters(t *testing.T) {
	files, err := filepath.Glob("testdata/foreign/*.parquet")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var want []string
			for i := range 10 {
				want = append(want, rowOf(filepath.Base(file), i))
			}
			expect(t, readAll(t, file, Options{}), want...)
		})
	}
}

func TestParquetBadRows(t *testing.T) {
	type row struct {
		Prompt   *string  `parquet:"prompt,optional"`
		Seed     *float64 `parquet:"seed,optional"`
		Height   uint64   `parquet:"height"`
		Guidance float32  `parquet:"guidance_scale"`
		Note     string   `parquet:"note"`
	}
	p := func(s string) *string { return &s }
	f := func(v float64) *float64 { return &v }
	nan := f(0)
	*nan /= *nan
	path := tabletest.WriteFile(t, []row{
		{Prompt: p("good"), Seed: f(3), Height: 1, Guidance: 4.1},
		{Prompt: nil, Height: 1},
		{Prompt: p("x"), Seed: nan, Height: 1},
		{Prompt: p("x"), Seed: f(0.5), Height: 1},
		{Prompt: p("x"), Height: 1 << 63},
		{Prompt: p("x"), Height: 1, Guidance: -1},
		{Prompt: p("bad \xff"), Height: 1},
		{Prompt: p("x"), Height: 1, Note: "bad \xff"},
		{Prompt: p(strings.Repeat("x", 1<<20)), Height: 1},
		{Prompt: p("x"), Height: 1, Note: strings.Repeat("n", typed.MaxExtraBytes+1)},
		{Prompt: p(""), Height: 1},
	})
	got := readAll(t, path, Options{})
	want := []string{"", "prompt: the value is missing", "seed: NaN is not a whole number",
		"seed: 0.5 is not a whole number", `height: "9223372036854775808" is too large`,
		"guidance_scale: -1 is out of range", "prompt: not valid UTF-8", "note: not valid UTF-8",
		"prompt: 1048576 bytes are too long", "note: 262145 bytes are too many", ""}
	if len(got) != len(want) {
		t.Fatalf("%d rows", len(got))
	}
	for i, w := range want {
		if bad := got[i].Bad; (bad == nil) != (w == "") || bad != nil && !strings.Contains(bad.Error(), w) {
			t.Errorf("row %d: %v, want %q", i+1, bad, w)
		}
	}
	if s := summary(got[0]); s != `t.parquet:row 1 "good" seed=3 h=1 cfg=4.1 extra={"note":""}` {
		t.Error(s)
	}
}

func TestParquetFieldOfTheWrongType(t *testing.T) {
	type row struct {
		Prompt string  `parquet:"prompt"`
		Steps  bool    `parquet:"steps"`
		Tags   []int64 `parquet:"tags,list"`
	}
	path := tabletest.WriteFile(t, []row{{Prompt: "x", Steps: true}})
	got := readAll(t, path, Options{})
	if got[0].Bad == nil || !strings.Contains(got[0].Bad.Error(), "true is not a whole number") {
		t.Error(got[0].Bad)
	}
	_, err := Open([]string{path}, Options{Columns: map[string]string{"prompt": "tags"}})
	if err == nil || !strings.Contains(err.Error(), "lists or structs") {
		t.Error(err)
	}
	type other struct{ Title string }
	_, err = Open([]string{tabletest.WriteFile(t, []other{{"x"}})}, Options{})
	if err == nil || !strings.Contains(err.Error(), "the columns are: Title") {
		t.Error(err)
	}
	if got := readAll(t, tabletest.WriteFile(t, []row(nil)), Options{}); len(got) != 0 {
		t.Error(got)
	}
}

func TestParquetBooleans(t *testing.T) {
	type row struct {
		Prompt string `parquet:"prompt"`
		Always bool   `parquet:"always"`
		Maybe  *bool  `parquet:"maybe,optional"`
	}
	values := []*bool{nil, new(bool), new(bool), nil, nil}
	*values[2] = true
	var rows []row
	var want []string
	for i := range 1000 {
		v := values[i%len(values)]
		rows = append(rows, row{"p", i%3 == 0, v})
		text := "null"
		if v != nil {
			text = fmt.Sprint(*v)
		}
		want = append(want, fmt.Sprintf(`t.parquet:row %d "p" extra={"always":%v,"maybe":%s}`, i+1, i%3 == 0, text))
	}
	expect(t, readAll(t, tabletest.WriteFile(t, rows), Options{}), want...)
}

// A table with tensors can be a table of prompts: they are left out and never read.
func TestParquetLeavesBytesOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "latents.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := write.Write(f, tabletest.Seq(tabletest.Latents(3, 1<<20)), write.Options{}); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, path, Options{})
	if len(got) != 3 || got[2].Row.Prompt != "a red circle, number 2" || got[2].Row.ID != "row-002" ||
		strings.Contains(got[2].Row.Extra, "latent_bytes") ||
		!strings.Contains(got[2].Row.Extra, `"vae_latent_shape":[4,16,8,512]`) {
		t.Errorf("%+v", got)
	}
}

func TestParquetMemoryIsBounded(t *testing.T) {
	type row struct {
		Prompt string   `parquet:"prompt,zstd"`
		Seed   *int64   `parquet:"seed,optional"`
		Tags   []string `parquet:"tags,list"`
	}
	rows := make([]row, 100_000)
	for i := range rows {
		seed := int64(i)
		rows[i] = row{fmt.Sprintf("a red circle moves to the left, number %d", i), &seed, []string{"a", "b"}}
	}
	path := tabletest.WriteFile(t, rows, parquet.MaxRowsPerRowGroup(30_000))
	rows = nil
	p, err := Open([]string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	for rec, err := range p.All() {
		if err != nil || rec.Bad != nil {
			t.Fatal(err, rec.Bad)
		}
		if want := int64(n); *rec.Row.Seed != want {
			t.Fatalf("row %d has seed %d", n, *rec.Row.Seed)
		}
		if n++; n%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
				t.Fatalf("after %d rows the heap grew by %d bytes", n, grown)
			}
		}
	}
	if n != 100_000 {
		t.Error(n)
	}
}

// Half floats are numbers; the right ones are from pyarrow and DuckDB.
func TestParquetHalfFloats(t *testing.T) {
	value := []string{"4.1015625", "-7.5", "5.960464477539063e-8", "65504", "0.333251953125"}
	var want []string
	for i, score := range []string{"4.1015625", "7.5", "null", "65504", "0.333251953125"} {
		cfg := " cfg=" + score
		if score == "null" {
			cfg = ""
		}
		want = append(want, fmt.Sprintf(`half.parquet:row %d "p%d"%s extra={"score":%s,"list":[%s,null,4.1015625],"struct":{"a":%d,"b":%s},"map":{"k":%s}}`,
			i+1, i, cfg, score, value[i], i, value[i], value[i]))
	}
	want[3] = "BAD half.parquet:row 4: guidance_scale: 65504 is out of range, a number from 0 to 1000; correct it, or leave it empty for the default"
	expect(t, readAll(t, "testdata/pyarrow/half.parquet", Options{}), want...)
}

// pyarrow writes a table without rows as a row group without rows, whose chunks lie nowhere.
func TestParquetEmptyRowGroups(t *testing.T) {
	var want []string
	for i, id := range []string{"a", "b", "c"} {
		tags := [...]string{`["a","b"]`, `["a","b"]`, `["c"]`}[i]
		want = append(want, fmt.Sprintf(`empty-groups.parquet:row %d %q id=%s extra={"flag":true,"tags":%s}`, i+1, id, id, tags))
	}
	expect(t, readAll(t, "testdata/pyarrow/empty-groups.parquet", Options{}), want...)
	expect(t, readAll(t, "testdata/pyarrow/empty.parquet", Options{}))
}

// TestUnsetOfOutputs: zeros in the tables of outputs, as earlier releases wrote what programs as stages left open, say nothing;
// in the tables of others they are wrong, and so is a guidance scale beside steps.
func TestUnsetOfOutputs(t *testing.T) {
	type row struct {
		Prompt string  `parquet:"prompt"`
		Steps  int64   `parquet:"num_inference_steps"`
		Scale  float64 `parquet:"guidance_scale"`
		FPS    float64 `parquet:"fps"`
		Model  string  `parquet:"model"`
	}
	rows := []row{{"x", 0, 0, 0, "m"}, {"y", 2, 0, 8, "m"}}
	ours := tabletest.WriteFile(t, rows, parquet.KeyValueMetadata(write.MetadataSchema, "videos/v1"))
	o := Options{Uses: &Uses{}}
	expect(t, readAll(t, ours, o), `t.parquet:row 1 "x" extra={"model":"m"}`, `t.parquet:row 2 "y" fps=8 steps=2 cfg=0 extra={"model":"m"}`)
	if unused := Unused(o.Uses.Columns(), nil); len(unused) > 0 {
		t.Errorf("columns of every output are told of: %+v", unused)
	}
	others := readAll(t, tabletest.WriteFile(t, rows), Options{})
	if others[0].Bad == nil || !strings.Contains(others[0].Bad.Error(), "0 is out of range") {
		t.Error(others[0].Bad)
	}
}
