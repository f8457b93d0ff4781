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

type noteKey struct{}

// WithNote returns a context under which a stage says why a batch does not move, such as a program that is loading.
// tell gets a few words, "" when they hold no more. It is called from any goroutine.
func WithNote(ctx context.Context, tell func(note string)) context.Context {
	return context.WithValue(ctx, noteKey{}, tell)
}

// Note returns what a stage tells its words, never nil.
func Note(ctx context.Context) func(note string) {
	if tell, ok := ctx.Value(noteKey{}).(func(string)); ok {
		return tell
	}
	return func(string) {}
}
