// Package logs writes records of log/slog as text for people or as JSON for programs.
package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/storage/source"
	"latentbeam/internal/watch/board"
)

// Options are the options of a logger. The zero value is the default of the program.
type Options struct {
	JSON  bool
	Level slog.Level // minimal level; if not Set, text starts at source.LevelNotice
	Set   bool       // Level was given by the user
}

// level returns the minimal level.
func (o Options) level() slog.Level {
	if o.Set || o.JSON {
		return o.Level
	}
	return source.LevelNotice
}

// New returns a logger for this program. It writes the program's own records and only errors of libraries, because Beam's
// runners log warnings that do not concern users. Lines of text have the form of the program's other messages.
func New(w io.Writer, o Options) *slog.Logger {
	if o.JSON {
		return slog.New(filter{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: o.level()})})
	}
	return slog.New(filter{&lineHandler{w: w, mu: new(sync.Mutex), level: o.level()}})
}

// filter drops records of libraries below the level of errors.
type filter struct{ slog.Handler }

// Handle implements slog.Handler.
func (h filter) Handle(ctx context.Context, r slog.Record) error {
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	if r.Level < slog.LevelError && !own(frame.Function) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h filter) WithAttrs(attrs []slog.Attr) slog.Handler { return filter{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h filter) WithGroup(name string) slog.Handler { return filter{h.Handler.WithGroup(name)} }

// lineHandler writes records as lines for people.
type lineHandler struct {
	w     io.Writer
	mu    *sync.Mutex // protects w
	level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements slog.Handler. It writes a record as one line.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	what := "warning: "
	switch {
	case r.Level >= slog.LevelError:
		what = "error: "
	case r.Level < slog.LevelInfo:
		what = "debug: "
	case r.Level < source.LevelNotice:
		what = "info: "
	case r.Level < slog.LevelWarn:
		what = ""
	}
	fmt.Fprintf(&b, "latentbeam: %s%s", what, r.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, "; %s: %v", a.Key, a.Value.Resolve())
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.w, &b)
	return err
}

// own reports whether a function belongs to this module, or to a program that calls Main with its own stages.
func own(function string) bool {
	modules := []string{"latentbeam", "main"}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path != "" {
		modules = append(modules, info.Main.Path)
	}
	return slices.ContainsFunc(modules, func(m string) bool {
		return strings.HasPrefix(function, m+"/") || strings.HasPrefix(function, m+".")
	})
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(slices.Clip(h.attrs), attrs...)
	return &c
}

// WithGroup implements slog.Handler. Names of groups are not written.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }

// ParseLevel parses debug, info, warn or error.
func ParseLevel(s string) (slog.Level, error) {
	for name, level := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError} {
		if s == name {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%q is no level: give debug, info, warn or error", s)
}

// Lines returns a writer that logs each line as a record.
func Lines(l *slog.Logger) io.Writer { return lines{l} }

type lines struct{ l *slog.Logger }

// Write implements io.Writer.
func (w lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line = strings.TrimSpace(line); line != "" {
			w.l.Info(strings.TrimPrefix(line, "latentbeam: "))
		}
	}
	return len(p), nil
}

// Spans returns a sink that logs spans: settled rows at level info, and batches, waits and publishing at level debug. The fields
// are row, stage, shape, device, duration_s and error.
func Spans(l *slog.Logger) board.Sink {
	return board.Sink{Record: func(s board.Span) {
		ctx := context.Background()
		switch {
		case s.Kind == board.Row && s.Failure != "":
			class, _, _ := strings.Cut(s.Failure, "/")
			l.LogAttrs(ctx, slog.LevelInfo, "row failed", slog.String("row", s.Rows[0]), slog.String("stage", s.Stage),
				slog.String("shape", s.Shape), slog.String("class", class), slog.String("error", s.Error))
		case s.Kind == board.Row:
			l.LogAttrs(ctx, slog.LevelInfo, "row done", slog.String("row", s.Rows[0]), slog.String("shape", s.Shape))
		case !l.Enabled(ctx, slog.LevelDebug):
		default:
			attrs := []slog.Attr{slog.String("stage", s.Stage), slog.Any("row", s.Rows), slog.Int("rows", s.Count),
				slog.Float64("duration_s", s.Seconds())}
			if s.Shape != "" {
				attrs = append(attrs, slog.String("shape", s.Shape))
			}
			if len(s.Devices) > 0 {
				attrs = append(attrs, slog.String("device", strings.Join(s.Devices, " ")))
			}
			if s.Error != "" {
				attrs = append(attrs, slog.String("error", s.Error))
			}
			l.LogAttrs(ctx, slog.LevelDebug, "batch: "+string(s.Kind), attrs...)
		}
	}}
}
