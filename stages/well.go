package stages

import "context"

// Under returns a context that ends when ctx ends, or when a device of the set falls ill. Its cause says which.
func (s *Set) Under(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.Well == nil {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(s.Well, func() { cancel(context.Cause(s.Well)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Ill returns why a device of the set is no longer trusted, nil while all are well. A batch of a set that is ill has to
// be computed again.
func (s *Set) Ill() error {
	if s.Well == nil {
		return nil
	}
	return context.Cause(s.Well)
}
