package schemas

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// ptr returns a pointer to a copy of v.
func ptr[T any](v T) *T { return &v }

// TestContentIDSeesEveryParameterAndNothingElse: another value of any parameter gives another id. Where a row stands, its own id and its
// carried columns do not.
func TestContentIDSeesEveryParameterAndNothingElse(t *testing.T) {
	base := PromptRow{Prompt: "a red circle moves left"}
	changed := map[string]PromptRow{
		"prompt":              {Prompt: "a red circle moves right"},
		"negative_prompt":     {Prompt: base.Prompt, NegativePrompt: "blur"},
		"seed":                {Prompt: base.Prompt, Seed: ptr(int64(0))},
		"height":              {Prompt: base.Prompt, Height: 64},
		"width":               {Prompt: base.Prompt, Width: 64},
		"num_frames":          {Prompt: base.Prompt, NumFrames: 64},
		"fps":                 {Prompt: base.Prompt, FPS: 8},
		"num_inference_steps": {Prompt: base.Prompt, NumInferenceSteps: 64},
		"guidance_scale":      {Prompt: base.Prompt, GuidanceScale: ptr(0.0)},
		"max_sequence_length": {Prompt: base.Prompt, MaxSequenceLength: 64},
		"num_videos":          {Prompt: base.Prompt, NumVideosPerPrompt: 64},
	}
	seen := map[string]string{base.ContentID(): "base"}
	for name, row := range changed {
		id := row.ContentID()
		if other, dup := seen[id]; dup {
			t.Errorf("%s and %s have the same id", name, other)
		}
		seen[id] = name
	}
	same := base
	same.Source, same.Extra, same.SampleIndex, same.ID = "x.csv:9", `{"a":1}`, 3, "mine"
	if same.ContentID() != base.ContentID() {
		t.Error("the row's place, id or carried columns changed its content id")
	}
	// Moving a byte from one text to the next must not give the same hash.
	if (PromptRow{Prompt: "ab", NegativePrompt: "c"}).ContentID() ==
		(PromptRow{Prompt: "a", NegativePrompt: "bc"}).ContentID() {
		t.Error("texts that differ only in their boundary have the same id")
	}
}

func TestContentIDIsPinned(t *testing.T) {
	// Users' tables contain ids. If this value changes, these ids match no rows any more, so the change needs a new "latentbeam/id/v2".
	const want = "13bb6ff1772e2338"
	got := PromptRow{Prompt: "a red circle", Seed: ptr(int64(7)), Height: 64}.ContentID()
	if !strings.HasPrefix(got, want) || len(got) != 2*contentIDBytes {
		t.Errorf("got %s, want %s…", got, want)
	}
}

// TestWithDefaults: a row keeps the values that it has, 0 among them, and takes the others from the defaults, except prompt, id and seed.
func TestWithDefaults(t *testing.T) {
	d := PromptRow{Prompt: "no", ID: "no", Seed: ptr(int64(1)), NegativePrompt: "blur", Height: 64, Width: 32,
		NumFrames: 16, FPS: 8, NumInferenceSteps: 50, GuidanceScale: ptr(4.0), MaxSequenceLength: 120,
		NumVideosPerPrompt: 2}
	got := PromptRow{Prompt: "p", Width: 128, GuidanceScale: ptr(0.0)}.WithDefaults(d)
	want := PromptRow{Prompt: "p", NegativePrompt: "blur", Height: 64, Width: 128, NumFrames: 16, FPS: 8,
		NumInferenceSteps: 50, GuidanceScale: ptr(0.0), MaxSequenceLength: 120, NumVideosPerPrompt: 2}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestFieldBounds(t *testing.T) {
	cases := []struct {
		field string
		v     float64
		ok    bool
	}{
		{"height", 1, true}, {"height", 0, false}, {"height", -8, false}, {"height", MaxSide, true},
		{"height", MaxSide + 1, false}, {"seed", 0, true}, {"seed", -1, false},
		{"fps", 23.976, true}, {"fps", 0, false}, {"fps", math.Inf(1), false}, {"fps", math.NaN(), false},
		{"guidance_scale", 0, true}, {"guidance_scale", -0.5, false}, {"guidance_scale", math.NaN(), false},
		{"num_inference_steps", 1000, true}, {"num_inference_steps", 1001, false},
	}
	for _, c := range cases {
		f, found := FieldByName(c.field)
		if !found {
			t.Fatalf("no field %q", c.field)
		}
		var err error
		if f.Kind == Integer {
			err = f.CheckInteger(int64(c.v))
		} else {
			err = f.CheckReal(c.v)
		}
		if (err == nil) != c.ok {
			t.Errorf("%s = %v: got error %v, want allowed: %v", c.field, c.v, err, c.ok)
		}
	}
	seed, _ := FieldByName("seed")
	if err := seed.CheckInteger(math.MaxInt64); err != nil {
		t.Errorf("the largest seed: %v", err)
	}
}

// TestValidText: the result is valid UTF-8 and at most 3*limit bytes long (each invalid byte becomes a replacement character of 3 bytes),
// plus the mark that it was cut.
func TestValidText(t *testing.T) {
	texts := []string{"", "plain", "日本語のテキスト", "a\xffb", strings.Repeat("é", 3000), "\x80\x80\x80\x80"}
	for _, s := range texts {
		for _, limit := range []int{0, 1, 2, 3, 5, 1024} {
			got := ValidText(s, limit)
			if !utf8.ValidString(got) || len(got) > 3*limit+len("…") {
				t.Errorf("ValidText(%.20q, %d) = %.40q", s, limit, got)
			}
		}
	}
	if got := ValidText("aé", 2); got != "a…" {
		t.Errorf("a limit inside a character: got %q, want %q", got, "a…")
	}
}

// TestPromptRowsSurvive: a prompt row comes back unchanged from an EmbeddingRow and from JSON.
func TestPromptRowsSurvive(t *testing.T) {
	p := PromptRow{ID: "i", Prompt: "p", NegativePrompt: "n", Seed: ptr(int64(5)), Height: 64, Width: 32,
		NumFrames: 16, FPS: 8, NumInferenceSteps: 50, GuidanceScale: ptr(4.0), MaxSequenceLength: 120,
		NumVideosPerPrompt: 2, SampleIndex: 1, Extra: `{"a":1}`}
	if got := NewEmbeddingRow(p).PromptRow(); !reflect.DeepEqual(got, p) {
		t.Errorf("from an EmbeddingRow: got %+v, want %+v", got, p)
	}
	// Beam transfers prompt rows as JSON.
	text, err := json.Marshal(p)
	var back PromptRow
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("from JSON: got %+v, %v; want %+v", back, err, p)
	}
}

func TestBucketString(t *testing.T) {
	b := BucketOf(PromptRow{Width: 512, Height: 288, NumFrames: 16, GuidanceScale: ptr(7.0)})
	if b.String() != "512x288x16" || !b.Guided {
		t.Errorf("got %s, guided %v; want 512x288x16, guided", b, b.Guided)
	}
}

// TestLatentRowStartsWithFastVideo: the first columns have FastVideo's names and order. Its trainers cannot read other names.
func TestLatentRowStartsWithFastVideo(t *testing.T) {
	want := []string{"id", "vae_latent_bytes", "vae_latent_shape", "vae_latent_dtype", "text_embedding_bytes",
		"text_embedding_shape", "text_embedding_dtype", "file_name", "caption", "media_type", "width", "height",
		"num_frames", "duration_sec", "fps"}
	typ := reflect.TypeFor[LatentRow]()
	for i, name := range want {
		got, _, _ := strings.Cut(typ.Field(i).Tag.Get("parquet"), ",")
		if got != name {
			t.Errorf("column %d is %q, FastVideo calls it %q", i, got, name)
		}
	}
}

// TestColumnNamesAreUniqueAndAgreeWithJSON: each field of a row type has a parquet name of its own, and the same name in JSON (or none: "-").
func TestColumnNamesAreUniqueAndAgreeWithJSON(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[VideoRow](), reflect.TypeFor[EmbeddingRow](),
		reflect.TypeFor[LatentRow](), reflect.TypeFor[FailureRow]()} {
		seen := map[string]bool{}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
			if name == "" || seen[name] {
				t.Errorf("%s.%s: the column name %q is empty or used before", typ.Name(), f.Name, name)
			}
			seen[name] = true
			if j := f.Tag.Get("json"); j != name && j != "-" {
				t.Errorf("%s.%s is %q in parquet but %q in JSON", typ.Name(), f.Name, name, j)
			}
		}
	}
}
