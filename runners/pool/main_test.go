package pool

import (
	"flag"
	"log/slog"
	"os"
	"testing"
)

// TestMain leaves out what is logged of workers, but with -v.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	os.Exit(m.Run())
}
