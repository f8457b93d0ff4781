package stages

import (
	"errors"
	"math"
	"testing"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

func TestElementKinds(t *testing.T) {
	full := func() *Element {
		return &Element{Text: &Text{Embedding: NewArray(1, 2)}, Latents: NewArray(1), Frames: &schemas.Clip{},
			Video: &schemas.Encoded{}}
	}
	for _, k := range []Kind{KindText, KindLatents, KindFrames, KindVideo} {
		if e := (&Element{}); e.Has(k) {
			t.Errorf("an empty element has %s", k)
		}
		e := full()
		if !e.Has(k) || !e.Has(KindPrompt) {
			t.Errorf("a full element has no %s", k)
		}
		e.Drop(k)
		if e.Has(k) == (k != KindVideo) { // the video is what a job is for
			t.Errorf("after Drop of %s: %v", k, e.Has(k))
		}
	}
	if e := full(); e.Has(KindMedia) {
		t.Error("an element has media")
	}
}

func TestFailKeepsTheFirst(t *testing.T) {
	e := &Element{}
	e.Fail("denoise", fault.Retry(errors.New("device lost")))
	e.Fail("guard", errors.New("second"))
	if got := *e.Failed; got != (Failure{"denoise", fault.ClassRetry, "device lost"}) {
		t.Errorf("%+v", got)
	}
	if e.Failed.Error() != "denoise: device lost" {
		t.Errorf("%v", e.Failed)
	}
	b := Batch{Elements: []*Element{{}, e, {}}}
	if live := b.Live(); len(live) != 2 || live[0] != b.Elements[0] || live[1] != b.Elements[2] {
		t.Errorf("%d live", len(live))
	}
}

func TestNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	array := func(v ...float32) *Array { return &Array{Shape: []int{len(v)}, Data: v} }
	for want, c := range map[string]struct {
		e *Element
		k Kind
	}{
		"value 1 of the latents is NaN":         {&Element{Latents: array(0, nan, inf)}, KindLatents},
		"value 0 of the text embedding is -Inf": {&Element{Text: &Text{Embedding: array(inf)}}, KindText},
		"value 2 of the negative text embedding is NaN": {
			&Element{Text: &Text{Embedding: array(1), Negative: array(1, 2, nan)}}, KindText},
	} {
		if got := c.e.NotFinite(c.k); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	e := &Element{Latents: array(1, math.MaxFloat32), Text: &Text{Embedding: array()}}
	for _, k := range []Kind{KindText, KindLatents, KindFrames, KindPrompt, ""} {
		if got := e.NotFinite(k); got != "" {
			t.Errorf("%s: %s", k, got)
		}
	}
}
