package pipelines

import (
	"context"

	"latentbeam/internal/store"
)

// OutputIn makes the job's output a store that both functions open, the second one only where it is there.
func (o *Options) OutputIn(output, existing func(ctx context.Context, url string) (store.Store, error)) {
	o.outputs = outputs{output, existing}
}
