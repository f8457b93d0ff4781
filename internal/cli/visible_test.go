package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestInvisibleTextIsEscaped: text of a table or a name cannot control a terminal or reverse a line, neither as text nor in JSON.
func TestInvisibleTextIsEscaped(t *testing.T) {
	const odd = "a\u202eb\u009bc\x1b[31md\u200be"
	s := newShell(t, "job.yaml", "version: 1\nmodel: tiny\ninput: {prompts: prompts.jsonl}\noutput: {path: out, write: [video]}\n"+
		"defaults: {height: 32, width: 32, num_frames: 4, num_inference_steps: 2}\n")
	line, err := json.Marshal(map[string]any{"id": odd, "prompt": odd, "seed": odd})
	if err != nil {
		t.Fatal(err)
	}
	s.write("prompts.jsonl", string(line))
	for _, args := range [][]string{
		{"run", "job.yaml"}, {"run", "job.yaml", "--log-format", "json", "--log-level", "debug"}, {"status", "out", "--json"},
		{"run", odd + ".yaml"}, {"status", "none" + odd}, {"inspect", "none" + odd}, {"explain", "out", "none" + odd},
	} {
		cmd, stdout, stderr := s.command(args...)
		_ = cmd.Run()
		text := stdout.String() + stderr.String()
		if strings.ContainsAny(text, "\u202e\u009b\x1b\u200b") || !strings.Contains(text, `\u202e`) {
			t.Errorf("%s prints %q", args, text)
		}
	}
}
