package pipelines_test

import (
	"testing"

	"latentbeam/internal/config"
)

// TestBuiltInModelFollowsPrompts makes the twelve videos of the demonstration and reads colour, shape and
// motion back from them as a player shows them. At least 11 of 12 must be right in all three; `make eval`
// does the same with 96.
func TestBuiltInModelFollowsPrompts(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of sampling")
	}
	t.Chdir("..")
	cfg, err := config.Load("testdata/prompts/shapes.yaml", []string{"output.path=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	result := runs(t, cfg)
	all := result.Totals.Agreement["all"]
	t.Logf("agreement: %v", result.Totals.Agreement)
	if all.Of != 12 || all.Equal < 11 {
		t.Errorf("%d of %d videos are as prompted, want 11 of 12", all.Equal, all.Of)
	}
}
