package stages

import "context"

type progressKey struct{}

// WithProgress returns a context with which a stage reports its progress on a batch: it calls report with the number of finished
// steps and of all steps. report must be safe for concurrent use; several ranks of a set report the same numbers.
func WithProgress(ctx context.Context, report func(done, of int)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress returns the function to which a stage reports its steps. It is never nil.
func Progress(ctx context.Context) func(done, of int) {
	if report, ok := ctx.Value(progressKey{}).(func(done, of int)); ok {
		return report
	}
	return func(int, int) {}
}

type noteKey struct{}

// WithNote returns a context with which a stage reports why a batch does not advance, such as a program that is loading. report
// receives a few words, and "" when they no longer apply. It must be safe for concurrent use.
func WithNote(ctx context.Context, report func(note string)) context.Context {
	return context.WithValue(ctx, noteKey{}, report)
}

// Note returns the function to which a stage reports its notes. It is never nil.
func Note(ctx context.Context) func(note string) {
	if report, ok := ctx.Value(noteKey{}).(func(string)); ok {
		return report
	}
	return func(string) {}
}
