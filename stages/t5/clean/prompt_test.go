package clean

import (
	"os"
	"strings"
	"testing"

	"latentbeam/internal/system/testaid"
)

// promptsEnv names another file of pairs to compare with, in the form of testdata/prompts.json.
const promptsEnv = "LATENTBEAM_WAN_PROMPTS"

// TestPromptEqualsReference compares with prompt_clean of diffusers.
func TestPromptEqualsReference(t *testing.T) {
	path := "testdata/prompts.json"
	if other := os.Getenv(promptsEnv); other != "" {
		path = other
	}
	pairs := readCleaned(t, path).Pairs
	if len(pairs) < 400 {
		t.Fatalf("only %d prompts", len(pairs))
	}
	wrong := 0
	for _, p := range pairs {
		if got := Prompt(p[0]); got != p[1] {
			if wrong++; wrong <= 10 {
				t.Errorf("Prompt(%+q)\n got %+q\nwant %+q", p[0], got, p[1])
			}
		}
	}
	t.Logf("%d of %d prompts differ", wrong, len(pairs))
}

func TestPromptKeepsWhatCaptionDrops(t *testing.T) {
	const prompt = "A <b>Cat</b> by @user, 4K \xff"
	if got, want := Prompt(prompt), "A <b>Cat</b> by @user, 4K \uFFFD"; got != want {
		t.Errorf("Prompt(%q) = %q, want %q", prompt, got, want)
	}
}

func TestPromptIsLinear(t *testing.T) {
	for _, unit := range []string{"a red bird, ", " ", "&", "&amp;", "Ã©", "\u0323\u0301", "\xff", "<"} {
		testaid.Linear(t, strings.ToValidUTF8(unit, "?"), "", unit, func(text string) { Prompt(text) })
	}
}
