package pipelines

import (
	"context"
	"time"

	"latentbeam/internal/storage/store"
)

// OutputIn makes the job's output a store that both functions open, the second one only where it is there.
func (o *Options) OutputIn(output, existing func(ctx context.Context, url string) (store.Store, error)) {
	o.stores.Output, o.stores.Existing = output, existing
}

// WriteEarlyEvery lets jobs write their report so often while they run, however long it takes, until restore.
func WriteEarlyEvery(every time.Duration) (restore func()) {
	e, f := earlyEvery, earlyFactor
	earlyEvery, earlyFactor = every, 0
	return func() { earlyEvery, earlyFactor = e, f }
}
