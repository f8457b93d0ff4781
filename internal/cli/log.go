package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/location"
)

// log returns the logger of this program: its own notices and warnings, and of the libraries that it uses errors alone. Beam's
// runners warn of what is none of a user's business. A line reads like the program's other messages.
func log(w io.Writer) *slog.Logger { return slog.New(&ours{w: w, mu: new(sync.Mutex)}) }

type ours struct {
	w     io.Writer
	mu    *sync.Mutex // of w
	attrs []slog.Attr
}

// Enabled reports whether records of a level may be shown.
func (h *ours) Enabled(_ context.Context, level slog.Level) bool {
	return level >= location.LevelNotice
}

// Handle drops what is not an error and comes from a library.
func (h *ours) Handle(_ context.Context, r slog.Record) error {
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	if r.Level < slog.LevelError && !own(frame.Function) {
		return nil
	}
	var b strings.Builder
	what := "warning: "
	switch {
	case r.Level >= slog.LevelError:
		what = "error: "
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

// own reports whether a function belongs to this module, or to the program that calls Main with stages of its own.
func own(function string) bool {
	modules := []string{"latentbeam", "main"}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path != "" {
		modules = append(modules, info.Main.Path)
	}
	return slices.ContainsFunc(modules, func(m string) bool {
		return strings.HasPrefix(function, m+"/") || strings.HasPrefix(function, m+".")
	})
}

// WithAttrs keeps the rule.
func (h *ours) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &ours{h.w, h.mu, append(slices.Clip(h.attrs), attrs...)}
}

// WithGroup keeps the rule; names of groups are not shown.
func (h *ours) WithGroup(string) slog.Handler { return h }

// logWriter is where records go: stderr, or past the bar that a terminal shows.
var logWriter = &past{}

// past writes to stderr, or to another writer while there is one.
type past struct {
	mu sync.Mutex
	w  io.Writer
}

// through lets text go to w; nil: to stderr.
func (p *past) through(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = w
}

// Write implements io.Writer.
func (p *past) Write(text []byte) (int, error) {
	p.mu.Lock()
	w := p.w
	p.mu.Unlock()
	if w == nil {
		w = os.Stderr
	}
	return w.Write(text)
}
