package pipelines

import (
	"context"
	"time"

	"latentbeam/internal/storage/store"
)

// OutputIn sets the functions that open the job's output: the first one for writing, the second one only if the output exists.
func (o *Options) OutputIn(output, existing func(ctx context.Context, url string) (store.Store, error)) {
	o.stores.Output, o.stores.Existing = output, existing
}

// WriteEarlyEvery sets the interval at which running jobs write their report, however long a write takes, until restore is called.
func WriteEarlyEvery(every time.Duration) (restore func()) {
	e, f := earlyEvery, earlyFactor
	earlyEvery, earlyFactor = every, 0
	return func() { earlyEvery, earlyFactor = e, f }
}
