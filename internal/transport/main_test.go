package transport

import (
	"flag"
	"log/slog"
	"os"
	"testing"
)

// TestMain leaves out what is logged of every group, but with -v: a failing test is not found among hundreds of lines.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	os.Exit(m.Run())
}
