package runners

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"latentbeam/internal/config"
)

// Runner executes pipelines.
type Runner struct {
	Name  string
	Doc   string   // one line
	Keys  []string // allowed keys of its map in the YAML, beside name
	Needs []string // required keys
	// Distributed says that its workers are other processes, perhaps on other hosts. Rows cross one shuffle after their
	// keys are computed, and a worker opens the job from its specification.
	Distributed bool
	// Apart says that its workers run on machines that share no directory with this one.
	Apart   bool
	Missing string                         // reason why this build cannot run it; "": it can
	check   func(cfg *config.Config) error // checks values; nil: none
	// request returns the request for the engine, for people; nil: the runner has none.
	request func(l Launch) ([]byte, error)
	run     func(ctx context.Context, l Launch) error
}

// Launch is one execution of a pipeline.
type Launch struct {
	Pipeline *beam.Pipeline
	Job      string        // name of the job, for people
	ID       string        // unique id of the run
	Config   config.Runner // the job's part of the YAML
	Subtasks int           // number of bundles after the shuffle; 0: the runner decides
	// Started is called with the engine's id of the job as soon as it is known; nil: not called.
	Started func(id string)
}

// All lists the runners, the default first.
func All() []Runner {
	return []Runner{
		{Name: "local", Doc: "in this process: no sockets, nothing to install", run: runLocal},
		flinkRunner(),
		sparkRunner(),
		dataflowRunner(),
		{Name: "prism", Doc: "Beam's portable runner, in this process; for tests", Missing: prismMissing, run: runPrism},
	}
}

// Find returns the runner of that name.
func Find(name string) (Runner, error) {
	var names []string
	for _, r := range All() {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Runner{}, fmt.Errorf("unknown runner %q; there are %s", name, strings.Join(names, ", "))
}

// Check refuses unknown and missing keys of the runner's map. The error has the place in
// the file.
func (r Runner) Check(cfg *config.Config) error {
	for _, key := range cfg.RunnerKeys() {
		if !slices.Contains(r.Keys, key) {
			fix := "it takes no keys: write runner: " + r.Name
			if len(r.Keys) > 0 {
				fix = "it takes " + strings.Join(r.Keys, ", ")
			}
			return cfg.Errorf("runner."+key, "runner %s has no key %q", r.Name, key).WithFix("%s", fix)
		}
	}
	for _, key := range r.Needs {
		if !slices.Contains(cfg.RunnerKeys(), key) {
			return cfg.Errorf("runner", "runner %s needs %s", r.Name, key).
				WithFix("write runner: {name: %s, %s}", r.Name, example(r.Needs))
		}
	}
	if r.Missing != "" {
		return cfg.Errorf("runner", "%s", r.Missing)
	}
	if r.check == nil {
		return nil
	}
	return r.check(cfg)
}

// Request returns the request that would be sent to the engine, for people; nil: the runner has none.
func (r Runner) Request(l Launch) ([]byte, error) {
	if r.request == nil {
		return nil, nil
	}
	return r.request(l)
}

// examples are example values of keys, for messages.
var examples = map[string]string{"project": "my-project", "region": "europe-west4", "staging": `"gs://my-bucket/staging"`,
	"image": `"europe-west4-docker.pkg.dev/my-project/my-repository/latentbeam:TAG"`}

func example(keys []string) string {
	var out []string
	for _, k := range keys {
		out = append(out, k+": "+examples[k])
	}
	return strings.Join(out, ", ")
}

// Run executes the pipeline and waits for its end. Cancel ctx to end it early. ctx must not have a deadline, because
// Beam's data plane does not survive one.
func (r Runner) Run(ctx context.Context, l Launch) error {
	if err := r.run(ctx, l); err != nil {
		return fmt.Errorf("runner %s: %w", r.Name, err)
	}
	return nil
}

var initOnce sync.Once

// Init prepares Beam in this process. Call it after the catalogue and the pool are installed and before
// a pipeline is built. It restores the default logger, which Beam replaces.
func Init() {
	initOnce.Do(func() {
		logger := slog.Default()
		beam.Init()
		slog.SetDefault(logger)
	})
}
