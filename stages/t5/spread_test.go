package t5

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
	"latentbeam/stages/sequence"
	"latentbeam/testdata/tiny"
)

// openTiny is the stage with the built-in encoder.
func openTiny(t *testing.T) *stage {
	t.Helper()
	m, err := stages.EmbeddedModel("tiny", tiny.Files())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Spec().New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*stage)
}

// prompts5 are five elements, one with a negative prompt.
func prompts5() (batch []*stages.Element) {
	for i := range 5 {
		row := schemas.PromptRow{Prompt: fmt.Sprintf("a red circle moves left %d times", i), MaxSequenceLength: 20}
		if i == 2 {
			row.NegativePrompt = "a blue square"
		}
		batch = append(batch, &stages.Element{Row: row})
	}
	return batch
}

func texts(batch []*stages.Element) (all [][]float32) {
	for _, e := range batch {
		all = append(all, e.Text.Embedding.Data)
		if e.Text.Negative != nil {
			all = append(all, e.Text.Negative.Data)
		}
	}
	return all
}

// setOf is a set of n devices.
func setOf(n int) *stages.Set {
	set := &stages.Set{Speeds: sequence.Equal(n), Connect: func(context.Context) ([]kernels.Transport, error) {
		return cluster.Shared(n), nil
	}}
	for range n {
		set.Devices = append(set.Devices, cpu.New(1))
	}
	return set
}

// TestPlacedOnSmallDevices: if no device can hold the encoder, the plan places its layers on two devices. They give the
// results of the whole encoder, and no device gets more than fits.
func TestPlacedOnSmallDevices(t *testing.T) {
	one := openTiny(t)
	batch := prompts5()
	if err := one.Run(t.Context(), cpu.New(1), batch); err != nil {
		t.Fatal(err)
	}
	want := texts(batch)
	whole, err := one.Cost(&batch[0].Row)
	if err != nil {
		t.Fatal(err)
	}
	part := whole.Parts[0] + whole.Parts[1] // the embedding and a layer
	memory := part * 12 / 10
	devices := layout.Ranks(sequence.Equal(2))
	for i := range devices {
		devices[i].Memory = memory
	}
	held, _ := layout.Arrange([]cost.Estimate{whole}, devices, 10)
	s := openTiny(t)
	if err := s.Hold(held[0]); err != nil || len(held[0].Runs) != 2 {
		t.Fatalf("two devices with room for half: %+v, %v", held[0], err)
	}
	set := setOf(2)
	var cards []*kerneltest.CardBackend
	for i := range set.Devices {
		cards = append(cards, kerneltest.Card(cpu.New(1), memory))
		set.Devices[i] = cards[i]
		if err := s.LoadShard(cards[i], i); err != nil {
			t.Fatal(err)
		}
	}
	batch = prompts5()
	if err := s.RunSet(t.Context(), set, batch); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(texts(batch), want, slices.Equal) {
		t.Error("other embeddings")
	}
	if fullest := max(cards[0].WeightBytes, cards[1].WeightBytes); fullest > memory || held[0].Bytes < fullest || whole.Weights <= memory {
		t.Errorf("%d bytes on the fullest device of %d, the plan says %d; all are %d", fullest, memory, held[0].Bytes,
			whole.Weights)
	}
	if err := openTiny(t).Load(kerneltest.Card(cpu.New(1), memory)); err == nil {
		t.Error("a device holds the whole encoder: nothing is shown")
	}
}

// TestSameTextOnAnyGrid: the stage gives the same embeddings for every split of its weights, and states which splits it does
// not support.
func TestSameTextOnAnyGrid(t *testing.T) {
	batch := prompts5()
	if err := openTiny(t).Run(t.Context(), cpu.New(1), batch); err != nil {
		t.Fatal(err)
	}
	want := texts(batch)
	for tensor := 1; tensor <= 4; tensor++ {
		for pipeline := 1; pipeline <= 2; pipeline++ {
			s := openTiny(t)
			s.Tensor, s.Pipeline = tensor, pipeline
			batch := prompts5()
			if err := s.RunSet(t.Context(), setOf(s.Width(nil)), batch); err != nil {
				t.Errorf("tp_size %d, pp_size %d: %v", tensor, pipeline, err)
			} else if !slices.EqualFunc(texts(batch), want, slices.Equal) {
				t.Errorf("tp_size %d, pp_size %d: other embeddings", tensor, pipeline)
			}
		}
	}
}
