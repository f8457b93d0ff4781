package schemas

import (
	"fmt"
	"testing"
)

// TestSized: the size of a row whose empty columns are taken from defaults (of the job or of the model), HEIGHTxWIDTH, or the start of the
// error.
func TestSized(t *testing.T) {
	type row = PromptRow
	job := row{Resolution: "240p", AspectRatio: "9:16"}
	for _, c := range []struct {
		row, defaults row
		want          string
	}{
		{row{}, job, "240x426"},
		{row{AspectRatio: "1:1"}, job, "320x320"},
		{row{Resolution: "720p"}, job, "720x1280"},
		{row{Height: 64, Width: 48}, job, "64x48"},
		{row{Height: 64, Width: 48, Resolution: "720p"}, job, "64x48"}, // sides take precedence over names
		{row{Height: 64}, row{Height: 32, Width: 40}, "64x40"},
		{row{}, row{Height: 32, Width: 40}, "32x40"},
		{row{AspectRatio: "1:1", Resolution: "144p"}, row{Height: 32, Width: 40}, "192x192"},
		{row{AspectRatio: "1:1"}, row{Height: 32, Width: 40}, "resolution is missing"},
		{row{Resolution: "144p"}, row{}, "aspect_ratio is missing"},
		{row{Resolution: "145p"}, job, `resolution "145p" is not known`},
		{row{AspectRatio: "7:5"}, job, `aspect_ratio "7:5" (height:width)`},
		{row{}, row{}, "0x0"},
	} {
		got, err := c.row.WithDefaults(c.defaults).Sized(OpenSora)
		text := fmt.Sprintf("%dx%d", got.Height, got.Width)
		if err != nil {
			text = err.Error()
		}
		if len(text) < len(c.want) || text[:len(c.want)] != c.want {
			t.Errorf("row %+v with defaults %+v: got %s, want %s", c.row, c.defaults, text, c.want)
		}
		if err == nil && got.Resolution+got.AspectRatio != "" {
			t.Errorf("%+v still has a resolution or an aspect ratio beside its size", got)
		}
	}
	// A size that the job gives by name takes precedence over the model's size in pixels.
	if d := job.WithDefaults(row{Height: 64, Width: 64}); d.Height != 0 || d.Resolution != "240p" {
		t.Errorf("got height %d, resolution %q; want 0, 240p", d.Height, d.Resolution)
	}
}

// TestLaterParametersInIDs: parameters that were added after the first release are part of a row's id, too.
func TestLaterParametersInIDs(t *testing.T) {
	edit := 0.5
	plain := PromptRow{Prompt: "a"}
	seen := map[string]bool{plain.ContentID(): true}
	for i, r := range []PromptRow{{Resolution: "240p"}, {AspectRatio: "240p"}, {Aes: "1"}, {Flow: "1"},
		{CameraMotion: "1"}, {Reference: "1"}, {MaskStrategy: "1"}, {Loop: 1}, {ConditionFrameLength: 1}, {ConditionFrameEdit: &edit},
		{GuidanceScale2: &edit}, {Noise: "1"}} {
		r.Prompt = "a"
		if id := r.ContentID(); seen[id] {
			t.Errorf("row %d (%+v) has the id of an earlier row", i, r)
		} else {
			seen[id] = true
		}
	}
}

// TestCarriedConditions: a row of embeddings takes its conditioning from its carried columns. Values that are not valid are left out.
// want: reference, mask_strategy, loop, condition_frame_length, and condition_frame_edit, which is -1 where it is missing.
func TestCarriedConditions(t *testing.T) {
	for extra, want := range map[string]string{
		`{"reference": "a.png", "mask_strategy": 0, "other": 1}`:         "a.png 0 0 0 -1",
		`{"reference_path":"a","loop":"3","condition_frame_length":5}`:   "a  3 5 -1",
		`{"loop": 2, "condition_frame_edit": "0.5"}`:                     "  2 0 0.5",
		`{"loop": 100000, "reference": null, "condition_frame_edit": 7}`: "  0 0 -1",
		`{"loop": "x"`: "  0 0 -1", ``: "  0 0 -1", `{"loop": {}, "reference": [1]}`: "[1]  0 0 -1",
	} {
		r := EmbeddingRow{Extra: extra}.PromptRow()
		edit := -1.0
		if r.ConditionFrameEdit != nil {
			edit = *r.ConditionFrameEdit
		}
		if got := fmt.Sprint(r.Reference, " ", r.MaskStrategy, " ", r.Loop, " ", r.ConditionFrameLength, " ", edit); got != want {
			t.Errorf("columns %s: got %q, want %q", extra, got, want)
		}
	}
}
