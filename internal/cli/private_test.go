package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// secret is planted in prompts. No message may quote it.
const secret = "PLANTED"

// plantedJSON are rows whose prompts are wrong in every way that the reader of tables reports.
var plantedJSON = []string{
	`{"id": "number", "prompt": 7700770077007700}`,
	`{"id": "huge", "prompt": 7700770077e999}`,
	`{"id": "list", "prompt": ["PLANTED", "a", 7700770077]}`,
	`{"id": "object", "prompt": {"PLANTED": 7700770077}}`,
	`{"id": "negative", "prompt": "a red circle", "negative_prompt": ["PLANTED"]}`,
	`{"id": "negative2", "prompt": "a red circle", "negative_prompt": 7700770077}`,
	`{"id": "long", "prompt": "` + strings.Repeat("PLANTED ", 10_000) + `"}`,
	`{"id": "surrogate", "prompt": "PLANTED \ud800"}`,
	`{"id": "broken", "prompt": "PLANTED"`,
	`{"id": "seed", "prompt": "PLANTED circle", "seed": "PLANTED circle of a prompt"}`,
	`{"id": "height", "prompt": "PLANTED circle", "height": ["PLANTED"]}`,
	`{"id": "scale", "prompt": "PLANTED circle", "guidance_scale": {"PLANTED": 1}}`,
	`{"id": {"PLANTED": 1}, "prompt": "PLANTED circle"}`,
	`{"id": "size", "prompt": "PLANTED circle", "height": 13}`,
	`{"id": "good", "prompt": "a red circle PLANTED"}`,
}

// TestPromptsStayPrivate plants a secret in the prompts of tables of every format, in rows that fail, and in tables
// that cannot be read: it appears in no message, neither on the terminal nor in the summary nor in the failures table.
func TestPromptsStayPrivate(t *testing.T) {
	csv := "id,prompt,seed,height,negative_prompt\n"
	for i := range 5 { // the prompt in every column
		row := []string{"a", "b", "1", "16", ""}
		row[i] = secret + " circle of a prompt"
		csv += strings.Join(row, ",") + "\n" + strings.Join(row, ",") + ",\n"
	}
	csv += "c,\"" + secret + ",1,2,\n"
	for name, content := range map[string]string{
		"prompts.jsonl":    strings.Join(plantedJSON, "\n") + "\n",
		"prompts.csv":      csv,
		"prompts.txt":      strings.Repeat(secret+" ", 10_000) + "\n" + secret + "\xff\n",
		"noheader.csv":     "a red circle of " + secret + " and blue,a second\n",
		"semicolons.csv":   "id;prompt\na;a red circle of " + secret + " and blue\n",
		"duplicates.csv":   "prompt,a red circle of " + secret + ",a red circle of " + secret + "\n",
		"otherkeys.jsonl":  `{"text of mine": "` + secret + ` a", "b": ["` + secret + `"]}` + "\n",
		"numbers.parquet":  plantedParquet(t, []plantedNumber{{"a", 7700770077}, {"b", 7700770077}}),
		"strings.parquet":  plantedParquet(t, []plantedText{{"a", secret + " circle", secret + " circle of a prompt"}}),
		"lists.parquet":    plantedParquet(t, []plantedList{{"a", []string{secret}}}),
		"booleans.parquet": plantedParquet(t, []plantedBool{{"a", true}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, "job.yaml", small, name, content)
			cmd, stdout, stderr := s.command("run", "job.yaml", "--set", "input.prompts="+name, "--set",
				"defaults.negative_prompt=a red circle")
			_ = cmd.Run()
			said := stdout.String() + stderr.String() + s.messages()
			for _, planted := range []string{secret, "7700770077"} {
				if at := strings.Index(said, planted); at >= 0 {
					t.Errorf("a message contains %q: ... %s", planted, said[max(0, at-200):min(len(said), at+100)])
				}
			}
		})
	}
}

// messages returns the texts of the output in which prompts must not appear.
func (s shell) messages() string {
	s.t.Helper()
	summary, _ := os.ReadFile(filepath.Join(s.dir, "out", "summary.json")) // there is no summary if the table is refused
	text := string(summary)
	files, _ := filepath.Glob(filepath.Join(s.dir, "out", "tables", "failures", "*.parquet"))
	for _, file := range files {
		for row, err := range typed.Read[schemas.FailureRow](file, false) {
			if err != nil {
				s.t.Fatal(err)
			}
			text += fmt.Sprintln(row.Stage, row.Class, row.Message)
		}
	}
	return text
}

type plantedNumber struct {
	ID     string `parquet:"id"`
	Prompt int64  `parquet:"prompt"`
}

type plantedText struct {
	ID     string `parquet:"id"`
	Prompt string `parquet:"prompt"`
	Seed   string `parquet:"seed"`
}

type plantedList struct {
	ID     string   `parquet:"id"`
	Prompt []string `parquet:"prompt"`
}

type plantedBool struct {
	ID     string `parquet:"id"`
	Prompt bool   `parquet:"prompt"`
}

// plantedParquet returns a parquet file of the rows, as a string.
func plantedParquet[T any](t *testing.T, rows []T) string {
	t.Helper()
	var b strings.Builder
	if err := parquet.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
