package jobtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/testdata/tiny"
)

// passing is a stage for tests. It calls a function with elements of any kind and passes them on.
type passing struct {
	run func(ctx context.Context, batch []*stages.Element) error
}

func (passing) Digest() string                              { return "" }
func (passing) Capabilities() stages.Capabilities           { return stages.Capabilities{} }
func (passing) Check(*schemas.PromptRow) error              { return nil }
func (passing) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

func (p passing) Run(ctx context.Context, _ kernels.Backend, batch []*stages.Element) error {
	return p.run(ctx, batch)
}

// Passive returns the spec of a stage that passes elements on and changes no key.
func Passive(name string, run func(ctx context.Context, batch []*stages.Element) error) stages.Spec {
	return stages.Spec{Name: name, Version: 1, Passive: true,
		New: func(*stages.Model, stages.Options) (stages.Stage, error) { return passing{run}, nil }}
}

// Specs returns its arguments as a list.
func Specs(s ...stages.Spec) []stages.Spec { return s }

// PauseSpec returns a stage "pause" that sleeps if a prompt contains the word wait.
func PauseSpec(d time.Duration) stages.Spec {
	return Passive("pause", func(ctx context.Context, batch []*stages.Element) error {
		for _, e := range batch {
			if strings.Contains(e.Row.Prompt, "wait") && e.Row.SampleIndex == 0 {
				select {
				case <-time.After(d):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
		return nil
	})
}

// LedgerResults returns the valid record of every key in the ledger of an output.
func LedgerResults(out string) ([]schemas.Result, error) {
	d, err := dir.OpenExisting(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := ledger.Open(context.Background(), d)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var results []schemas.Result
	err = l.Each(context.Background(), func(_ ledger.Ref, rec ledger.Record) error {
		var r schemas.Result
		err := json.Unmarshal(rec.Row, &r)
		results = append(results, r)
		return err
	})
	return results, err
}

// Toy is a trivial model: it makes a small latent from the length of the prompt. Prompts with the word poison
// fail; prompts with the word panic make their batch fail.
type Toy struct{ passing }

// Run implements stages.Stage.
func (Toy) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		switch {
		case strings.Contains(e.Row.Prompt, "poison"):
			e.Fail("toy", errors.New("poison"))
			continue
		case strings.Contains(e.Row.Prompt, "panic"):
			panic("poison")
		}
		e.Latents = stages.NewArray(4, 1, 1, 1)
		e.Latents.Data[0] = float32(len(e.Row.Prompt))
	}
	return nil
}

// ToySpec returns the spec of Toy.
func ToySpec() stages.Spec {
	return stages.Spec{Name: "toy", Version: 1, In: stages.KindPrompt, Out: stages.KindLatents,
		Params: []stages.Param{stages.ParamPrompt},
		New:    func(*stages.Model, stages.Options) (stages.Stage, error) { return Toy{}, nil }}
}

// RowsOf is a row source with fixed rows.
type RowsOf []schemas.PromptRow

// Rows implements engine.RowSource.
func (r RowsOf) Rows(context.Context, bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for _, row := range r {
			if !yield(&stages.Element{Row: row}, nil) {
				return
			}
		}
	}
}

// TinySteps returns stages of the built-in model as steps of an engine.
func TinySteps(t *testing.T, names ...string) (steps []stages.Step) {
	t.Helper()
	model, err := stages.EmbeddedModel("tiny", tiny.Files())
	Must(t, err)
	for _, name := range names {
		spec, _ := stages.Find(catalog.All(), name)
		stage, err := spec.New(model, nil)
		Must(t, err)
		steps = append(steps, stages.Step{Name: name, Spec: spec, Gives: spec.Out, Stage: stage})
	}
	return steps
}

// RecordTexts returns the records of a ledger as sorted texts, with digests instead of tensors.
func RecordTexts(t *testing.T, out string) (texts []string) {
	t.Helper()
	dir, err := dir.Open(out)
	Must(t, err)
	defer dir.Close()
	l, err := ledger.Open(t.Context(), dir)
	Must(t, err)
	defer l.Close()
	Must(t, l.Each(t.Context(), func(ref ledger.Ref, r ledger.Record) error {
		text := fmt.Sprintf("%v %v %s", r.Key, r.Status, r.Row)
		for _, b := range r.Blobs {
			data, err := l.ReadBlob(ref, b.Name)
			if err != nil {
				return err
			}
			text += " " + b.Name + " " + Digest(data)
		}
		texts = append(texts, text)
		return nil
	}))
	slices.Sort(texts)
	return texts
}

// slowSpec returns a stage "slow" that sleeps for each latent.
func slowSpec(d time.Duration) stages.Spec {
	return Passive("slow", func(_ context.Context, batch []*stages.Element) error {
		time.Sleep(time.Duration(len(batch)) * d)
		return nil
	})
}

// loads counts how often the weights of a stage are loaded to a device.
type loads struct {
	stages.Stage
	n *int
}

func (l loads) Capabilities() stages.Capabilities {
	all := l.Stage.Capabilities()
	can := stages.Capabilities{Cost: all.Cost, Spread: all.Spread, Loading: all.Loading}
	load := all.Loading.Load
	can.Loading.Load = func(dev kernels.Backend) error {
		*l.n++
		return load(dev)
	}
	return can
}

// CountLoads returns the spec of the denoiser and the counter of its loads.
func CountLoads(n *int) stages.Spec {
	return Denoiser(func(s stages.Stage) stages.Stage { return loads{s, n} })
}
