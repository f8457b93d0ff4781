package runners

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// Runner executes pipelines.
type Runner struct {
	Name string
	Doc  string // one line
	run  func(ctx context.Context, p *beam.Pipeline) error
}

// All lists the runners, the default first.
func All() []Runner {
	return []Runner{
		{"local", "in this process: no sockets, nothing to install", runLocal},
		{"prism", "Beam's portable runner, in this process", runPrism},
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

// Run executes the pipeline and waits for it. Cancel ctx to end it early (never by a deadline on ctx:
// Beam's data plane does not survive one).
func (r Runner) Run(ctx context.Context, p *beam.Pipeline) error {
	if err := r.run(ctx, p); err != nil {
		return fmt.Errorf("runner %s: %w", r.Name, err)
	}
	return nil
}

var initOnce sync.Once

// Init prepares Beam in this process; call it once the catalogue and the pool are installed and before
// a pipeline is built. Beam takes over the default logger, so it is put back.
func Init() {
	initOnce.Do(func() {
		logger := slog.Default()
		beam.Init()
		slog.SetDefault(logger)
	})
}
