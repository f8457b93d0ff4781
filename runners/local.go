package runners

import (
	"context"

	//nolint:staticcheck // SA1019: deprecated in favour of prism, which is no default yet: see runLocal
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
)

// runLocal uses Beam's in-process direct runner. It passes Go values from DoFn to DoFn, opens no socket
// and is idle while a device computes. Beam deprecates it in favour of prism; runPrism lists why
// prism is not the default.
func runLocal(ctx context.Context, l Launch) error {
	_, err := direct.Execute(ctx, l.Pipeline)
	return err
}
