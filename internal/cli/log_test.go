package cli

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/devices"
	"latentbeam/internal/watch/logs"
	"latentbeam/stages"
)

// TestLog: warnings of this module are shown, warnings of other modules are not, and errors are always shown.
func TestLog(t *testing.T) {
	here := reflect.ValueOf(devices.Dial).Pointer() + 1
	there := reflect.ValueOf((*cobra.Command).Help).Pointer() + 1
	for _, c := range []struct {
		level slog.Level
		pc    uintptr
		shown bool
		says  string
	}{
		{slog.LevelWarn, here, true, "warning"}, {slog.LevelWarn, there, false, ""},
		{slog.LevelError, there, true, "error"}, {slog.LevelInfo, here, false, ""}, {slog.LevelWarn, 0, false, ""},
	} {
		var b bytes.Buffer
		for _, l := range []*slog.Logger{logs.New(&b, logs.Options{}), logs.New(&b, logs.Options{}).With("a", 1),
			logs.New(&b, logs.Options{}).WithGroup("g")} {
			if h := l.Handler(); h.Enabled(context.Background(), c.level) {
				if err := h.Handle(context.Background(), slog.NewRecord(time.Time{}, c.level, "text", c.pc)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if text := b.String(); c.shown && !strings.HasPrefix(text, "latentbeam: "+c.says+": text\nlatentbeam: ") ||
			strings.Contains(text, "a: 1") != c.shown {
			t.Errorf("%v: got the log\n%s", c, text)
		}
		if n := strings.Count(b.String(), "text"); n != map[bool]int{true: 3}[c.shown] {
			t.Errorf("%v: the message is in the log %d times:\n%s", c, n, &b)
		}
	}
}

// TestRepeated: a stage of a program cannot have the name of a stage of the catalog.
func TestRepeated(t *testing.T) {
	for want, names := range map[string][]string{"": {"a", "b"}, "b": {"a", "b", "c", "b"}} {
		var specs []stages.Spec
		for _, name := range names {
			specs = append(specs, stages.Spec{Name: name})
		}
		if got := duplicateName(specs); got != want {
			t.Errorf("stages %v: got error %q, want %q", names, got, want)
		}
	}
}
