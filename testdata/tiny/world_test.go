package tiny

import (
	"encoding/csv"
	"os"
	"testing"
)

// TestKnowsItsPrompts: Knows accepts every prompt that the model is scored with, and rejects prompts that differ from its training.
func TestKnowsItsPrompts(t *testing.T) {
	for _, name := range []string{"../prompts/shapes.csv", "../prompts/eval.csv"} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil || len(rows) < 10 {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		for _, row := range rows[1:] {
			if !Knows(row[0]) {
				t.Errorf("%s: Knows(%q) is false", name, row[0])
			}
		}
	}
	for _, prompt := range []string{"", "a white circle moving left", "a red hexagon", "a cat", "a reddish circle"} {
		if Knows(prompt) {
			t.Errorf("Knows(%q) is true", prompt)
		}
	}
}
