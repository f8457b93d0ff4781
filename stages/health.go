package stages

import "context"

// WithHealth returns a context that ends when ctx ends, or when a device of the set fails. context.Cause says which.
func (s *Set) WithHealth(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.Health == nil {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(s.Health, func() { cancel(context.Cause(s.Health)) })
	return ctx, func() { stop(); cancel(nil) }
}

// HealthError returns why a device of the set is no longer trusted, or nil. If it returns an error, the batch must be computed
// again.
func (s *Set) HealthError() error {
	if s.Health == nil {
		return nil
	}
	return context.Cause(s.Health)
}
