package runners

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

// runPrism uses Beam's portable runner with its job server in this process. It proves that pipelines
// are portable (elements pass through coders, bundles are retried elsewhere), but it listens on all
// interfaces while the job runs and keeps one core busy: use it on machines you trust.
func runPrism(ctx context.Context, p *beam.Pipeline) error {
	_, err := prism.Execute(ctx, p)
	return err
}
