package runners

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// countFn counts elements in seen, then fails if Fail is set.
type countFn struct{ Fail bool }

var (
	seen     int
	errCount = errors.New("countFn fails")
)

func (f *countFn) ProcessElement(_ context.Context, _ []byte) error {
	seen++
	if f.Fail {
		return errCount
	}
	return nil
}

// counting returns a pipeline of one element that ends in a countFn.
func counting(fail bool) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &countFn{fail}, beam.Impulse(s))
	return p
}

// logger is the default logger before Init. Without -v it discards the messages that Beam logs for every pipeline.
var logger = slog.New(slog.DiscardHandler)

// TestMain registers the DoFn before it prepares Beam, because Beam accepts no DoFn after Init.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Verbose() {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	slog.SetDefault(logger)
	beam.RegisterDoFn(&countFn{})
	Init()
	os.Exit(m.Run())
}

// TestEveryRunner runs several pipelines in one process. A failing pipeline does not affect later ones. pipelines/suites/runners has the
// jobs that all runners must execute with equal results.
func TestEveryRunner(t *testing.T) {
	for _, r := range All() {
		if r.Distributed || r.Missing != "" {
			t.Logf("%s is not run here: %s", r.Name, r.Missing)
			continue
		}
		found, err := Find(r.Name)
		if err != nil || found.Name != r.Name || r.Doc == "" {
			t.Errorf("Find(%q): %+v, %v", r.Name, found, err)
		}
		seen = 0
		for i := range 3 { // in each turn, two pipelines count one element each
			if err := r.Run(t.Context(), Launch{Pipeline: counting(false)}); err != nil || seen != 2*i+1 {
				t.Errorf("%s: run %d: got %v and %d elements, want %d", r.Name, i, err, seen, 2*i+1)
			}
			err := r.Run(t.Context(), Launch{Pipeline: counting(true)})
			if err == nil || !strings.HasPrefix(err.Error(), "runner "+r.Name+": ") ||
				!strings.Contains(err.Error(), errCount.Error()) {
				t.Errorf("%s: a failing pipeline: %v", r.Name, err)
			}
		}
	}
	if All()[0].Name != "local" {
		t.Errorf("the first runner, which is the default, is %s; want local, which opens no port", All()[0].Name)
	}
}

func TestFindListsTheRunners(t *testing.T) {
	if _, err := Find("storm"); err == nil || err.Error() != `unknown runner "storm"; there are local, flink, spark, dataflow, prism` {
		t.Errorf("got %v", err)
	}
}

// TestInitKeepsTheLogger: Init restores the default logger, which Beam replaces.
func TestInitKeepsTheLogger(t *testing.T) {
	Init() // for the second time, after TestMain
	if slog.Default() != logger {
		t.Error("the default logger was replaced")
	}
}
