package runners

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/runners"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// link adds what stands between two transforms.
type link func(beam.Scope, beam.PCollection) beam.PCollection

// runOwnPipeline runs a pipeline that is built by hand from the transforms. between adds a step between any two of them.
func runOwnPipeline(t *testing.T, runner runners.Runner, out string, between link) {
	t.Helper()
	steps := jobtest.TinySteps(t, "encode_text", "denoise", "decode_vae", "encode_video", "measure_shapes")
	devices, err := devices.NewCPU(1, 1, 0)
	jobtest.Must(t, err)
	dir, err := dir.Open(out)
	jobtest.Must(t, err)
	defer dir.Close()
	records, err := ledger.Open(t.Context(), dir)
	jobtest.Must(t, err)
	defer records.Close()
	guidance := 4.0
	e := engine.New(steps, devices)
	e.Store, e.Ledger, e.Schedule.MaxBatch = dir, records, 2
	e.Rules = keys.Rules{Input: stages.KindPrompt, Steps: steps, Class: devices.Class()}
	e.Keep = map[stages.Kind]bool{stages.KindVideo: true, stages.KindLatents: true, stages.KindText: true}
	e.Source = jobtest.RowsOf{
		{ID: "a", Prompt: "a red circle moves left", Extra: `{"color":"red"}`}, {ID: "b", NegativePrompt: "dark"},
		{ID: "c", Prompt: "a blue square"}, {ID: "d", Prompt: "a blue square", NumFrames: 1},
	}
	e.Rules.Defaults = schemas.PromptRow{Height: 16, Width: 16, NumFrames: 2, FPS: 8, NumInferenceSteps: 2,
		GuidanceScale: &guidance, MaxSequenceLength: 16}
	jobtest.Must(t, e.Rules.Seal())

	spec := []byte(out) // the bytes are only a name of the job in this process
	defer transforms.Register(spec, e)()
	runners.Init()
	p, s := beam.NewPipelineWithRoot()
	elements := between(s, transforms.Key(s, spec, between(s, transforms.Read(s, spec))))
	batches := between(s, transforms.Bucket(s, spec, elements))
	for i, step := range steps {
		batches = between(s, transforms.Stage(s, spec, step.Name, i, batches))
	}
	transforms.Publish(s, spec, batches)
	jobtest.Must(t, e.Pass(t.Context(), func(ctx context.Context) error { return runner.Run(ctx, runners.Launch{Pipeline: p}) }))
	if !e.Settled() || e.Progress.Done.Load() != 4 {
		t.Errorf("all rows settled: %v, %d done", e.Settled(), e.Progress.Done.Load())
	}
}

// TestTransformsInAPipelineOfYourOwn builds a pipeline from the transforms by hand, with and without a Reshuffle
// between any two. A Reshuffle encodes every element with its tensors. The results are equal.
func TestTransformsInAPipelineOfYourOwn(t *testing.T) {
	fused := func(_ beam.Scope, c beam.PCollection) beam.PCollection { return c }
	var want []string
	for _, runner := range jobtest.InProcess(t) {
		for name, between := range map[string]link{"fused": fused, "reshuffled": beam.Reshuffle} {
			out := filepath.Join(t.TempDir(), "out")
			runOwnPipeline(t, runner, out, between)
			got := jobtest.RecordTexts(t, out)
			if want == nil {
				want = got
			}
			if len(got) != 4 || !slices.Equal(got, want) {
				t.Errorf("runner %s, %s: got\n%s\nwant\n%s", runner.Name, name, strings.Join(got, "\n"),
					strings.Join(want, "\n"))
			}
		}
	}
	if !strings.Contains(want[0], "readings") {
		t.Errorf("the table could not be read: %s", want[0])
	}
}
