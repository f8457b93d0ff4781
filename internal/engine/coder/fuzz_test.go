package coder

import (
	"testing"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// FuzzBatch: no bytes from a peer make the reader of batches or of saved steps panic. A batch that was read can be encoded again.
func FuzzBatch(f *testing.F) {
	a := &stages.Array{Shape: []int{1, 2}, Data: []float32{1, 2}}
	e := &stages.Element{Row: schemas.PromptRow{ID: "a", Prompt: "b"}, Latents: a, Poster: []byte("p"), References: []*stages.Array{a},
		Frames: &schemas.Clip{Width: 1, Height: 1, FPS: 1, Frames: [][]byte{{1, 2, 3}}}, Readings: map[string]string{"a": "b"},
		Text: &stages.Text{Embedding: a, Later: []stages.LaterText{{Clip: 1, Embedding: a}}}}
	one, err := EncodeBatch(&stages.Batch{Elements: []*stages.Element{e, {Row: schemas.PromptRow{ID: "c"}}}})
	if err != nil {
		f.Fatal(err)
	}
	saved, err := EncodeSaved([]stages.Saved{{Steps: stages.Steps{Done: 3, Latents: a}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(saved)
	f.Fuzz(func(t *testing.T, data []byte) {
		if batch, err := DecodeBatch(data); err == nil {
			if _, err := EncodeBatch(batch); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = DecodeSaved(data)
	})
}

// FuzzBlock: no bytes in a file of rows to compute make its reader panic. A block that was read can be packed again.
func FuzzBlock(f *testing.F) {
	one, err := PackBlock(&stages.Batch{Elements: []*stages.Element{{Row: schemas.PromptRow{ID: "a", Prompt: "b"}},
		{Row: schemas.PromptRow{ID: "c"}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(one[:len(one)-2])
	f.Add(packer().EncodeAll(make([]byte, 1<<20), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, packed := range [][]byte{data, packer().EncodeAll(data, nil)} {
			if batch, err := UnpackBlock(packed); err == nil {
				if _, err := PackBlock(batch); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
