package wan

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"

	"latentbeam/internal/cluster"
	"latentbeam/internal/config"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

func optionsOf(t testing.TB, text string) stages.Options {
	t.Helper()
	o, err := config.ParseOptions("denoise", text)
	if err != nil {
		t.Fatal(err)
	}
	return o.Decode
}

func rowOf(frames, height, width int, guidance float64) schemas.PromptRow {
	return schemas.PromptRow{NumFrames: frames, Height: height, Width: width, FPS: 16, NumInferenceSteps: 3,
		GuidanceScale: &guidance}
}

// stageOf is the stage `denoise` with a tiny network of the goldens.
func stageOf(t testing.TB, name, options string) stages.Stage {
	t.Helper()
	c := goldens(t)[name]
	m, err := stages.EmbeddedModel("test", fstest.MapFS{
		"transformer/config.json": &fstest.MapFile{Data: []byte(c.Config)},
		"transformer/diffusion_pytorch_model.safetensors": &fstest.MapFile{
			Data: nntest.FileBytes(t, nntest.Shapes(t, c.config(t), Load))},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := diffuse.Spec([]dit.Family{Denoiser()}, nil, func(*stages.Model) (stages.Reencoder, error) { return nil, nil }).
		New(m, optionsOf(t, options))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// batchOf makes elements of one size with texts and seeds of their own.
func batchOf(t testing.TB, name string, n, frames int, guidance float64) []*stages.Element {
	t.Helper()
	d, err := open((&goldenCase{Config: goldens(t)[name].Config}).config(t), published{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var batch []*stages.Element
	for i := range n {
		seed := int64(100 + i)
		e := &stages.Element{Row: rowOf(frames, 48, 64, guidance),
			Text: &stages.Text{Embedding: textOf(d, "text", i, 1+i*7), Negative: textOf(d, "negative", i, 1+i)}}
		e.Row.Seed, e.Row.SampleIndex = &seed, i%2
		batch = append(batch, e)
	}
	return batch
}

func digests(t testing.TB, batch []*stages.Element) (out []string) {
	t.Helper()
	for i, e := range batch {
		if e.Failed != nil || e.Latents == nil {
			t.Fatalf("element %d has no latents: %v", i, e.Failed)
		}
		h := sha256.New()
		fmt.Fprintf(h, "%v%v%g", e.Latents.Shape, e.Latents.Data, e.LatentScale)
		out = append(out, fmt.Sprintf("%x", h.Sum(nil)))
	}
	return out
}

func setOf(n int) *stages.Set {
	s := &stages.Set{Speeds: sequence.Equal(n), Connect: func(context.Context) ([]kernels.Transport, error) {
		return cluster.Shared(n), nil
	}}
	for i := range n {
		s.Devices = append(s.Devices, kerneltest.Deferred(cpu.New(1+i%2)))
	}
	return s
}

// TestOnAnySet: the stage gives the same bytes alone, in a batch, on 1, 2 and 8 threads, and on sets that split columns,
// heads and blocks.
func TestOnAnySet(t *testing.T) {
	for _, c := range []struct {
		name, dtype string
		guidances   []float64
	}{{"a_0", "fp32", []float64{1, 4}}, {"b_0", "fp32", []float64{1, 4}}, {"b_0", "bf16", []float64{4}}} {
		name := c.name
		for _, guidance := range c.guidances {
			batch := batchOf(t, name, 3, 9, guidance)
			s := stageOf(t, name, "dtype: "+c.dtype)
			if err := s.Check(&batch[0].Row); err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context(), cpu.New(1), batch); err != nil {
				t.Fatal(err)
			}
			want := digests(t, batch)
			same := func(what string, got, want []string) {
				t.Helper()
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s %s, guidance %g, %s: other bytes", name, c.dtype, guidance, what)
				}
			}
			for _, threads := range []int{2, 8} {
				batch := batchOf(t, name, 3, 9, guidance)
				if err := s.Run(t.Context(), cpu.New(threads), batch); err != nil {
					t.Fatal(err)
				}
				same(fmt.Sprint(threads, " threads"), digests(t, batch), want)
			}
			alone := batchOf(t, name, 3, 9, guidance)[2:]
			if err := s.Run(t.Context(), cpu.New(1), alone); err != nil {
				t.Fatal(err)
			}
			same("alone", digests(t, alone), want[2:])
			for i, g := range [][3]int{{2, 1, 1}, {3, 1, 1}, {5, 1, 1}, {7, 1, 1}, {1, 2, 1}, {3, 2, 1}, {1, 1, 2}, {2, 2, 2}} {
				for k, partition := range []string{"uneven", "pad"} {
					if testing.Short() && (i+k)%2 == 0 {
						continue
					}
					s := stageOf(t, name, fmt.Sprintf("{sequence_parallel: %d, tp_size: %d, pp_size: %d, partition: %s, "+
						"dtype: "+c.dtype+"}",
						g[0], g[1], g[2], partition))
					many := batchOf(t, name, 3, 9, guidance)
					if err := s.Capabilities().Spread.Run(t.Context(), setOf(g[0]*g[1]*g[2]), many); err != nil {
						t.Fatalf("%v, %s: %v", g, partition, err)
					}
					same(fmt.Sprint(g, " ", partition), digests(t, many), want)
				}
			}
		}
	}
}

// TestTexts: the text changes the result, and guidance without a negative prompt is refused.
func TestTexts(t *testing.T) {
	s := stageOf(t, "a_0", "")
	one, other := batchOf(t, "a_0", 2, 1, 1), batchOf(t, "a_0", 2, 1, 1)
	other[0].Text = other[1].Text
	for _, batch := range [][]*stages.Element{one, other} {
		if err := s.Run(t.Context(), cpu.New(1), batch); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := digests(t, one), digests(t, other); a[0] == b[0] || a[1] != b[1] {
		t.Errorf("texts give %v and %v", a, b)
	}
	bare := batchOf(t, "a_0", 1, 1, 5)
	bare[0].Text.Negative = nil
	err := s.Run(t.Context(), cpu.New(1), bare)
	if err == nil && bare[0].Failed != nil {
		err = fmt.Errorf("%v", bare[0].Failed)
	}
	nntest.WantError(t, "no negative prompt", err, "Wan has no null text of its own")
}

// TestCost: the plan includes the cost of attention over all tokens and the memory of a row.
func TestCost(t *testing.T) {
	s := stageOf(t, "a_0", "")
	row := rowOf(9, 48, 64, 5)
	cost, err := s.Capabilities().Cost(&row)
	if err != nil || !cost.Split.Shape.Full || cost.Work <= 0 {
		t.Errorf("%+v, %v", cost, err)
	}
	key, err := json.Marshal(options{Options: dit.Options{DType: "fp32"}, FlowShift: new(5.0)})
	if err != nil || string(key) != `{"cfg_channel":0,"dtype":"fp32","flow_shift":5}` {
		t.Errorf("the key has %s, %v", key, err)
	}
}

// TestFewStepsOnAnySet: the fresh noise of DMD depends only on the element, not on the set or the batch.
func TestFewStepsOnAnySet(t *testing.T) {
	for _, options := range []string{"flow_solver: dmd", "flow_solver: euler, flow_sigmas: distilled"} {
		run := func(ranks int, batch []*stages.Element) []string {
			t.Helper()
			s := stageOf(t, "a_0", "{"+options+"}")
			if err := s.Check(&batch[0].Row); err != nil {
				t.Fatal(err)
			}
			if err := s.Capabilities().Spread.Run(t.Context(), setOf(ranks), batch); err != nil {
				t.Fatal(err)
			}
			return digests(t, batch)
		}
		want := run(1, batchOf(t, "a_0", 3, 9, 1))
		for _, ranks := range []int{2, 3, 5} {
			if got := run(ranks, batchOf(t, "a_0", 3, 9, 1)); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, %d ranks: other bytes", options, ranks)
			}
		}
		if got := run(1, batchOf(t, "a_0", 3, 9, 1)[1:2]); got[0] != want[1] {
			t.Errorf("%s: a row alone has other bytes", options)
		}
	}
}
