package read

import (
	"os"
	"path/filepath"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages/nn/nntest"
)

// TestSuffix compares conditions behind prompts with the reference's own function.
func TestSuffix(t *testing.T) {
	var rows [][4]string
	nntest.Decode(t, nntest.Golden(t, "../../../testdata/golden/condition.json")["json"], &rows)
	for _, r := range rows {
		row := schemas.PromptRow{Prompt: r[0]}
		(&rawRow{}).moveSuffix(&row)
		if got := [4]string{r[0], row.Prompt, row.Reference, row.MaskStrategy}; got != r {
			t.Errorf("got %q\nwant %q", got, r)
		}
	}
	for _, prompt := range []string{"a {b} c", `{"prompt": "x"}`, "{", `x{"mask_strategy": 1}`, `x{"mask_strategy": "0"`,
		`x{}`, `x{"mask_strategy": "0"}{"mask_strategy": "0"}`, `x{"mask_strategy": "0", "aes": 1}`} {
		row := schemas.PromptRow{Prompt: prompt}
		if (&rawRow{}).moveSuffix(&row); row.Prompt != prompt {
			t.Errorf("%q became %+v", prompt, row)
		}
	}
}

// TestLaterColumns reads the columns that came later, in every spelling, and still carries them along.
func TestLaterColumns(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	csv := write("a.csv", "prompt,num_frames,resolution,aspect_ratio,aes,reference_path,mask_strategy,loop,"+
		"condition_frame_edit\n"+
		"a,4s,512.0,1:1,6.5,a.png;b.mp4,\"0;0,1\",2,0.25\n")
	jsonl := write("a.jsonl", `{"prompt":"a","num_frames":"4s","resolution":512,"aspect_ratio":"1:1","aes":6.5,`+
		`"reference_path":"a.png;b.mp4","mask_strategy":"0;0,1","loop":2,"condition_frame_edit":0.25}`+"\n")
	for path, extra := range map[string]string{
		csv: `{"resolution":"512.0","aspect_ratio":"1:1","aes":"6.5","reference_path":"a.png;b.mp4",` +
			`"mask_strategy":"0;0,1","loop":"2","condition_frame_edit":"0.25"}`,
		jsonl: `{"resolution":512,"aspect_ratio":"1:1","aes":6.5,"reference_path":"a.png;b.mp4",` +
			`"mask_strategy":"0;0,1","loop":2,"condition_frame_edit":0.25}`,
	} {
		p, err := Open([]string{path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := p.Next()
		if err != nil || rec.Bad != nil {
			t.Fatal(err, rec.Bad)
		}
		r := rec.Row
		if r.NumFrames != 102 || r.Resolution != "512" || r.AspectRatio != "1:1" || r.Aes != "6.5" ||
			r.Reference != "a.png;b.mp4" || r.MaskStrategy != "0;0,1" || r.Loop != 2 || *r.ConditionFrameEdit != 0.25 {
			t.Errorf("%s: %+v", path, r)
		}
		if r.Extra != extra {
			t.Errorf("%s carries %s\nwant %s", path, r.Extra, extra)
		}
	}
}

// TestSuffixIsCarried: what a prompt ends in goes along with the row, for a job that starts from its embedding.
func TestSuffixIsCarried(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	text := `a{"reference_path": "x.png", "mask_strategy": "0,1"}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := Open([]string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := p.Next()
	if err != nil || rec.Bad != nil {
		t.Fatal(err, rec.Bad)
	}
	row := schemas.NewEmbeddingRow(rec.Row).PromptRow()
	if row.Prompt != "a" || row.Reference != "x.png" || row.MaskStrategy != "0,1" {
		t.Errorf("%+v", row)
	}
}
