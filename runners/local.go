package runners

import (
	"context"

	//nolint:staticcheck // SA1019: deprecated in favour of prism, which is no default yet: see runLocal
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
)

// runLocal uses Beam's in-process direct runner: it hands Go values from DoFn to DoFn, opens no socket
// and is idle while a device works. Beam calls it deprecated in favour of prism; what speaks against
// prism as a default is measured in ARCHITECTURE.md.
func runLocal(ctx context.Context, l Launch) error {
	_, err := direct.Execute(ctx, l.Pipeline)
	return err
}
