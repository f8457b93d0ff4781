package stages

import "context"

type progressKey struct{}

// WithProgress returns a context with which a stage reports its progress on a batch: it calls tell with the number of finished
// steps and of all steps. tell must be safe for concurrent use; several ranks of a set report the same numbers.
func WithProgress(ctx context.Context, tell func(done, of int)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Progress returns the function to which a stage reports its steps. It is never nil.
func Progress(ctx context.Context) func(done, of int) {
	if tell, ok := ctx.Value(progressKey{}).(func(done, of int)); ok {
		return tell
	}
	return func(int, int) {}
}

type noteKey struct{}

// WithNote returns a context with which a stage reports why a batch does not advance, such as a program that is loading. tell
// receives a few words, and "" when they no longer apply. It must be safe for concurrent use.
func WithNote(ctx context.Context, tell func(note string)) context.Context {
	return context.WithValue(ctx, noteKey{}, tell)
}

// Note returns the function to which a stage reports its notes. It is never nil.
func Note(ctx context.Context) func(note string) {
	if tell, ok := ctx.Value(noteKey{}).(func(string)); ok {
		return tell
	}
	return func(string) {}
}
