package main

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"strings"
)

// log returns the logger of this program: its own warnings, and of the libraries that it uses errors alone. Beam's
// runners warn of what is none of a user's business.
func log(w io.Writer) *slog.Logger {
	return slog.New(ours{slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})})
}

type ours struct{ slog.Handler }

// Handle drops what is not an error and does not come from this module.
func (h ours) Handle(ctx context.Context, r slog.Record) error {
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	if r.Level < slog.LevelError && !strings.HasPrefix(frame.Function, "latentbeam/") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep the rule.
func (h ours) WithAttrs(attrs []slog.Attr) slog.Handler { return ours{h.Handler.WithAttrs(attrs)} }

// WithGroup keeps the rule.
func (h ours) WithGroup(name string) slog.Handler { return ours{h.Handler.WithGroup(name)} }
