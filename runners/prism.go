package runners

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

// runPrism uses Beam's portable runner with its job server in this process: the job goes through Beam's
// pipeline protocol, as it would to Flink or Dataflow. Prism 2.77 fuses the whole job into one bundle, keeps
// a core busy while stages work, and its server listens on all interfaces without asking who calls: use it
// on machines you trust.
func runPrism(ctx context.Context, p *beam.Pipeline) error {
	_, err := prism.Execute(ctx, p)
	return err
}
