package stages

import "context"

type progressKey struct{}

// WithProgress returns a context under which a stage says how far it is with a batch: tell gets the steps that are done
// and those of all. It is called from any goroutine, by several ranks of a set with the same numbers.
func WithProgress(ctx context.Context, tell func(done, of int)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Progress returns what a stage tells its steps, never nil.
func Progress(ctx context.Context) func(done, of int) {
	if tell, ok := ctx.Value(progressKey{}).(func(done, of int)); ok {
		return tell
	}
	return func(int, int) {}
}
