package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/watch/board"
)

// TestFields: records of a run contain its id, and records of batches and rows contain their fields.
func TestFields(t *testing.T) {
	var b bytes.Buffer
	l := New(&b, Options{JSON: true, Level: slog.LevelDebug, Set: true}).With("run", "r1")
	record := Spans(l).Record
	now := time.Now()
	record(board.Span{Kind: board.Work, Stage: "denoise", Shape: "64x64x9", Rows: []string{"a", "b"}, Count: 2,
		Devices: []string{"cpu:0"},
		Begin:   now, End: now.Add(1500 * time.Millisecond)})
	record(board.Span{Kind: board.Row, Stage: "guard", Rows: []string{"a"}, Count: 1, Failure: "row/guard", Error: "black"})
	record(board.Span{Kind: board.Row, Stage: "publish", Rows: []string{"b"}, Count: 1})
	fmt.Fprintf(Lines(l), "3 rows: 2 to do\nlatentbeam: stopping\n")
	var all []map[string]any
	for line := range strings.Lines(b.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if len(all) != 5 {
		t.Fatalf("got %d records, want 5:\n%s", len(all), &b)
	}
	for i, want := range []map[string]string{
		{"level": "DEBUG", "run": "r1", "row": "[a b]", "stage": "denoise", "device": "cpu:0", "duration_s": "1.5", "shape": "64x64x9"},
		{"level": "INFO", "msg": "row failed", "row": "a", "stage": "guard", "class": "row", "error": "black"},
		{"msg": "row done", "row": "b", "run": "r1"}, {"msg": "3 rows: 2 to do"}, {"msg": "stopping"}} {
		for k, v := range want {
			if got := fmt.Sprint(all[i][k]); got != v {
				t.Errorf("record %d: %s is %q, want %q", i, k, got, v)
			}
		}
	}
}

// TestLevels: by default text starts at warnings and JSON at info; a given level overrides this.
func TestLevels(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want int
	}{{Options{}, 2}, {Options{JSON: true}, 3}, {Options{Set: true, Level: slog.LevelError}, 1},
		{Options{Set: true, Level: slog.LevelDebug}, 4}, {Options{JSON: true, Set: true, Level: slog.LevelWarn}, 2}} {
		var b bytes.Buffer
		l := New(&b, c.o)
		l.Debug("d")
		l.Info("i")
		l.Warn("w")
		l.Error("e", "k", 1)
		if n := strings.Count(b.String(), "\n"); n != c.want {
			t.Errorf("%+v: got %d lines, want %d:\n%s", c.o, n, c.want, &b)
		}
		if !c.o.JSON && !strings.HasSuffix(b.String(), "latentbeam: error: e; k: 1\n") {
			t.Errorf("the text of an error with a field is wrong:\n%s", &b)
		}
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("ParseLevel accepts loud")
	}
}
