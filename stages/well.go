package stages

import "context"

// Under returns a context that ends when ctx ends, or when a device of the set fails. context.Cause says which.
func (s *Set) Under(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.Well == nil {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(s.Well, func() { cancel(context.Cause(s.Well)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Ill returns why a device of the set is no longer trusted, nil while all devices are well. The batch of an ill set must be
// computed again.
func (s *Set) Ill() error {
	if s.Well == nil {
		return nil
	}
	return context.Cause(s.Well)
}
