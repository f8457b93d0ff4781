package coder

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// randomElement is an element with any of its parts absent, empty or full.
func randomElement(r *rand.Rand) *stages.Element {
	maybe := func() bool { return r.IntN(2) == 0 }
	texts := []string{"", "a", "日本 <&>\u2028 \"", strings.Repeat("x", 300)}
	text := func() string { return texts[r.IntN(len(texts))] }
	row := func() (p schemas.PromptRow) {
		p = schemas.PromptRow{ID: text(), Prompt: text(), NegativePrompt: text(), Height: r.IntN(3),
			Width: r.IntN(9999), FPS: r.Float64(), NumVideosPerPrompt: r.IntN(3), SampleIndex: r.IntN(3),
			Extra: text(), Source: text()}
		if maybe() {
			seed, guidance := r.Int64(), r.NormFloat64()
			p.Seed, p.GuidanceScale = &seed, &guidance
		}
		return p
	}
	array := func() *stages.Array {
		if maybe() {
			return nil
		}
		a := stages.NewArray([][]int{{}, {0, 4}, {3}, {2, 1, 5}}[r.IntN(4)]...)
		for i := range a.Data {
			a.Data[i] = math.Float32frombits(r.Uint32()) // NaNs and infinities among them
		}
		return a
	}
	part := func() []byte { return bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(4)*r.IntN(50)) }
	clip := func() *schemas.Clip {
		if maybe() {
			return nil
		}
		c := &schemas.Clip{Width: r.IntN(99), Height: r.IntN(99), FPS: r.Float64()}
		for range r.IntN(4) {
			c.Frames = append(c.Frames, part())
		}
		return c
	}
	e := &stages.Element{Row: row(), Given: row(), Latents: array(), ImageEmbedding: array(), RawLatents: array(),
		LatentScale: r.Float64(), Frames: clip(),
		Unread: text()}
	if maybe() {
		e.Wrong = map[string]string{text(): text()}
	}
	for i := range e.Key {
		e.Key[i], e.Origin[i] = byte(r.Uint32()), byte(r.Uint32())
	}
	if a := array(); a != nil {
		e.Text = &stages.Text{Embedding: a, Negative: array()}
		for i := range r.IntN(3) {
			one := &stages.Array{Shape: []int{1}, Data: []float32{r.Float32()}}
			e.Text.Later = append(e.Text.Later, stages.LaterText{Clip: i + 1, Embedding: one})
		}
	}
	for range r.IntN(3) {
		e.References = append(e.References, &stages.Array{Shape: []int{1, 2}, Data: []float32{r.Float32(), 1}})
	}
	if maybe() {
		e.Video = &schemas.Encoded{Data: part(), Ext: text(), Codec: text(), Recon: clip(), Width: r.IntN(9),
			Height: r.IntN(9), Frames: r.IntN(9)}
		e.Poster = part()
	}
	if maybe() {
		e.Media = &schemas.MediaFile{Data: part(), Ext: text()}
	}
	if maybe() {
		shaped := func() *stages.Array {
			return &stages.Array{Shape: []int{1, 2, 1, 3}, Data: []float32{r.Float32(), 1, 2, r.Float32(), 4, 5}}
		}
		e.Begun = &stages.Steps{Clip: r.IntN(3)}
		for range e.Begun.Clip {
			e.Begun.Clips = append(e.Begun.Clips, shaped())
		}
		if maybe() {
			e.Begun.Done, e.Begun.Sampler, e.Begun.Latents = 1+r.IntN(9), text(), shaped()
			e.Begun.Memory = []stages.Remembered{{Name: "data", Values: shaped()}, {Name: text(), Values: shaped()}}
		}
	}
	if maybe() {
		e.Form, e.Settled = 1+r.IntN(3), &schemas.Result{LatentsShape: []int{1, 2}, Video: &schemas.VideoFile{Path: text()}}
		e.LookFailed = map[string]*stages.Failure{text(): {Stage: text(), Message: text()}}
		e.Looked = map[string]map[string]string{text(): {"motion": text()}, text(): {}}
		e.Readings = map[string]string{"color": text(), text(): "x"}
	}
	if maybe() {
		e.Failed = &stages.Failure{Stage: text(), Class: fault.Class(r.IntN(3)), Message: text()}
	}
	return e
}

// bits replaces NaNs, which are not equal to themselves, by their bits.
func bits(e *stages.Element) [arrays][]uint32 {
	var out [arrays][]uint32
	for i, a := range arraysOf(e) {
		if a == nil {
			continue
		}
		for k, v := range a.Data {
			out[i] = append(out[i], math.Float32bits(v))
			a.Data[k] = 0
		}
	}
	return out
}

func TestCoderRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		want := &stages.Batch{Bucket: schemas.Bucket{Width: r.IntN(9), Guided: true}}
		for range r.IntN(4) {
			want.Elements = append(want.Elements, randomElement(r))
		}
		data, err := EncodeBatch(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Elements {
			if w, g := bits(want.Elements[i]), bits(got.Elements[i]); !reflect.DeepEqual(w, g) {
				t.Fatalf("arrays %v, want %v", g, w)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
	}
}

// TestCoderCarriesEveryField fails for a field of Element that the coder does not know.
func TestCoderCarriesEveryField(t *testing.T) {
	full := &stages.Element{}
	v := reflect.ValueOf(full).Elem()
	r := rand.New(rand.NewPCG(3, 4))
	for i, tries := 0, 0; i < v.NumField(); tries++ {
		if tries > 10_000 {
			t.Fatalf("randomElement never sets %s", v.Type().Field(i).Name)
		}
		if one := reflect.ValueOf(randomElement(r)).Elem().Field(i); !one.IsZero() {
			v.Field(i).Set(one)
			i++
		}
	}
	full.Video.Recon = &schemas.Clip{Width: 1}
	data, err := EncodeElement(full)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeElement(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.NumField() {
		if reflect.ValueOf(got).Elem().Field(i).IsZero() {
			t.Errorf("the coder loses %s", v.Type().Field(i).Name)
		}
	}
	if got.Video.Recon == nil {
		t.Error("the coder loses what a player shows")
	}
}

// TestCoderOfDamagedBytes: an error or another element, never a panic and never much memory.
func TestCoderOfDamagedBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		data, err := EncodeBatch(&stages.Batch{Elements: []*stages.Element{randomElement(r), randomElement(r)}})
		if err != nil {
			t.Fatal(err)
		}
		switch r.IntN(3) {
		case 0:
			data = data[:r.IntN(len(data))]
		case 1:
			data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
		default:
			data = append(data, byte(r.Uint32()))
		}
		_, _ = DecodeBatch(data)
		_, _ = DecodeElement(data)
	}
	for _, text := range []string{
		`{"arrays":[{"shape":[1000000,1000000]}],"lengths":[4]}`,
		`{"arrays":[{"shape":[-1]}],"lengths":[0]}`, `{"lengths":[-5]}`, `{"lengths":[1]}`,
		`{"frames":{"Frames":1000000000},"lengths":[]}`, `{"video":{},"lengths":[]}`, `{"poster":true}`, `{`, `[]`,
	} {
		if e, err := DecodeElement(append([]byte{byte(len(text))}, text...)); err == nil {
			t.Errorf("%s is %+v", text, e)
		}
	}
}
