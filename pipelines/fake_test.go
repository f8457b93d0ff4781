package pipelines_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// passing is a stage of a test that does something to the elements of any kind and gives them on.
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

// passive is the spec of a stage that passes elements on and changes no key.
func passive(name string, run func(ctx context.Context, batch []*stages.Element) error) stages.Spec {
	return stages.Spec{Name: name, Version: 1, Passive: true,
		New: func(*stages.Model, stages.Options) (stages.Stage, error) { return passing{run}, nil }}
}

func specs(s ...stages.Spec) []stages.Spec { return s }

// pauseSpec is a stage "pause" that sleeps on prompts with the word wait.
func pauseSpec(d time.Duration) stages.Spec {
	return passive("pause", func(ctx context.Context, batch []*stages.Element) error {
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

// ledgerResults reads what the ledger of an output says of every key that counts.
func ledgerResults(out string) ([]schemas.Result, error) {
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

// toy is a model that does next to nothing: it makes a small latent of the prompt's length. Prompts with
// the word poison fail, those with the word panic end their batch.
type toy struct{ passing }

func (toy) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
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

func toySpec() stages.Spec {
	return stages.Spec{Name: "toy", Version: 1, In: stages.KindPrompt, Out: stages.KindLatents,
		Params: []stages.Param{stages.ParamPrompt},
		New:    func(*stages.Model, stages.Options) (stages.Stage, error) { return toy{}, nil }}
}
