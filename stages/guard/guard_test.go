package guard

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// guardOf opens a guard that rejects these.
func guardOf(t *testing.T, reject ...string) stages.Stage {
	t.Helper()
	g, err := Spec().New(nil, func(target any) error {
		target.(*options).Reject = reject
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// clip has frames of 2x2 pixels of these brightnesses.
func clip(levels ...byte) *stages.Element {
	c := &schemas.Clip{Width: 2, Height: 2, FPS: 8}
	for _, l := range levels {
		c.Frames = append(c.Frames, bytes.Repeat([]byte{l}, 12))
	}
	return &stages.Element{Frames: c}
}

func TestGuard(t *testing.T) {
	almostBlack := clip(0, 0)
	almostBlack.Frames.Frames[1][11] = blackLevel + 1
	latents := func(v float32) *stages.Element {
		return &stages.Element{Latents: &stages.Array{Shape: []int{2}, Data: []float32{0, v}}}
	}
	negative := &stages.Element{Text: &stages.Text{Embedding: stages.NewArray(1),
		Negative: &stages.Array{Shape: []int{1}, Data: []float32{float32(math.Inf(1))}}}}
	for _, c := range []struct {
		what   string
		e      *stages.Element
		reject []string
		want   string // of the failure, "" for none
	}{
		{"a good video", clip(9, 10, 11), []string{"nan", "black", "frozen"}, ""},
		{"a black video", clip(0, blackLevel), nil, "rejected as black: no byte of 2 frames is above 8"},
		{"one bright byte", almostBlack, nil, ""},
		{"a black image", clip(3), nil, "rejected as black"},
		{"black, not asked about", clip(0, 1), []string{"frozen"}, ""},
		{"a frozen video", clip(9, 9, 9), []string{"frozen"}, "rejected as frozen: 3 frames are byte for byte"},
		{"frozen, not asked about", clip(9, 9, 9), nil, ""},
		{"a still image", clip(9), []string{"frozen"}, ""},
		{"the last frame differs", clip(9, 9, 10), []string{"frozen"}, ""},
		{"a NaN", latents(float32(math.NaN())), nil, "rejected as nan: value 1 of the latents is NaN"},
		{"a large number", latents(math.MaxFloat32), nil, ""},
		{"an infinity", negative, nil, "rejected as nan: value 0 of the negative text embedding is +Inf"},
		{"an empty element", &stages.Element{}, []string{"nan", "black", "frozen"}, ""},
		{"no check at all", clip(0), []string{}, ""},
		{"the first reason counts", clip(0, 0), []string{"black", "frozen"}, "rejected as black"},
	} {
		g := guardOf(t, c.reject...)
		good := clip(50, 60)
		if err := g.Run(t.Context(), nil, []*stages.Element{c.e, good}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if c.e.Failed != nil {
			got = c.e.Failed.Message
			if c.e.Failed.Stage != "guard" {
				t.Errorf("%s: failed in %s", c.what, c.e.Failed.Stage)
			}
		}
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if good.Failed != nil {
			t.Errorf("%s: its neighbour failed: %v", c.what, good.Failed)
		}
	}
}

// TestGuardIsPassive: a guard changes nothing, so it can be added or removed without changing a key.
func TestGuardIsPassive(t *testing.T) {
	s := Spec()
	if !s.Passive || s.In != "" || s.Out != "" || len(s.Params) > 0 {
		t.Errorf("%+v", s)
	}
	g := guardOf(t)
	need, err := g.Need(nil, 5)
	if g.Digest() != "" || g.Check(nil) != nil || need != 0 || err != nil {
		t.Error("a guard has weights, refuses rows or needs memory")
	}
}

// TestLimits: a row whose reading is outside of its limit is dropped, which is not a failure.
func TestLimits(t *testing.T) {
	low, high := 2.5, 10.0
	for _, c := range []struct {
		limit   stages.Limit
		reading string
		want    string
	}{
		{stages.Limit{Min: &low}, "2.5000", ""},
		{stages.Limit{Min: &low}, "2.4999", "sharpness is 2.4999, below the limit of 2.5"},
		{stages.Limit{Max: &high}, "10", ""},
		{stages.Limit{Max: &high}, "10.1", "sharpness is 10.1, above the limit of 10"},
		{stages.Limit{Min: &low, Max: &high}, "11", "sharpness is 11, above the limit of 10"},
		{stages.Limit{Min: &low}, "nan", "sharpness is nan, below the limit of 2.5"},
		{stages.Limit{Max: &high}, "nan", "sharpness is nan, above the limit of 10"},
		{stages.Limit{Min: &low}, "sharp", `sharpness is "sharp", which is no number`},
		{stages.Limit{Min: &low}, "", "sharpness was not read"},
	} {
		g, err := Spec().New(nil, func(target any) error {
			target.(*options).Limits = map[string]stages.Limit{"sharpness": c.limit}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		e := &stages.Element{Readings: map[string]string{"sharpness": c.reading}}
		if err := g.Run(t.Context(), nil, []*stages.Element{e}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if e.Failed != nil {
			got = e.Failed.Message
		}
		if got != c.want || got != "" && !e.Failed.IsDropped() {
			t.Errorf("%q: %q (%+v), want %q", c.reading, got, e.Failed, c.want)
		}
	}
}

// TestLimitOptions: limits without meaning are refused, and the readings needed from other stages are stated.
func TestLimitOptions(t *testing.T) {
	low, high, far := 1.0, 2.0, 16
	try := func(o options) (stages.Stage, error) {
		return Spec().New(nil, func(target any) error {
			*target.(*options) = o
			return nil
		})
	}
	for _, o := range []options{
		{Limits: map[string]stages.Limit{"motion": {}}}, {Limits: map[string]stages.Limit{"motion": {Min: &high, Max: &low}}}, {Duplicates: &far},
	} {
		if _, err := try(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	near := 15
	g, err := try(options{Limits: map[string]stages.Limit{"b": {Min: &low}, "a": {Max: &low}}, Duplicates: &near})
	if err != nil {
		t.Fatal(err)
	}
	c := g.Capabilities()
	if strings.Join(c.Reads, " ") != "a b phash" || c.Alike == nil || *c.Alike != (stages.Alike{Reading: "phash", Distance: 15}) {
		t.Errorf("%+v", c)
	}
}

// TestReadingsOfMedia: a missing reading about media counts as 0, so that a limit drops only damaged files.
func TestReadingsOfMedia(t *testing.T) {
	most := 2.0
	g := &guard{limits: map[string]stages.Limit{schemas.ReadingDecodeErrors: {Max: &most}}}
	for reading, dropped := range map[string]bool{"": false, "2": false, "3": true} {
		e := clip(9)
		if reading != "" {
			e.Read(map[string]string{schemas.ReadingDecodeErrors: reading})
		}
		if err := g.Run(t.Context(), nil, []*stages.Element{e}); err != nil || (e.Failed != nil) != dropped {
			t.Errorf("%q: %v, %v", reading, e.Failed, err)
		}
	}
}
