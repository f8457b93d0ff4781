package damage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// flipAt changes one byte after a text in a file.
func flipAt(t *testing.T, path, text string, by int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte(text))
	if at < 0 {
		t.Fatalf("%s does not have %q", path, text)
	}
	data[at+by] ^= 0x20
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedPageOfPrompts: if a page of a prompt table is damaged, the rows of the page fail and the job computes the others.
func TestDamagedPageOfPrompts(t *testing.T) {
	type row struct {
		ID     string `parquet:"id"`
		Prompt string `parquet:"prompt,plain"`
	}
	path := filepath.Join(t.TempDir(), "prompts.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[row](f, parquet.PageBufferSize(60), parquet.MaxRowsPerRowGroup(12))
	for i := range 24 {
		if _, err := w.Write([]row{{fmt.Sprint("r", i), fmt.Sprintf("a red circle %02d", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	flipAt(t, path, "a red circle 14", 3)
	j := jobtest.Job{Prompts: path, Out: filepath.Join(t.TempDir(), "out"), Stages: "[encode_text]",
		Sets: []string{"output.write=[embeddings]"}}
	r := j.MustRun(t)
	failures := jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures")
	if n := len(failures); n == 0 || n > 6 || r.Totals.Failed != int64(n) || r.Totals.Done != int64(24-n) {
		t.Fatalf("got %d failures, totals %+v", n, r.Totals)
	}
	want := regexp.MustCompile(`^` + regexp.QuoteMeta(path) + `:row \d+: prompt: page \d of row group 1, at byte \d+, is damaged: `)
	found := false
	for _, f := range failures {
		found = found || f.ID == "r14"
		if !want.MatchString(f.Message) || f.Stage != "read" || f.Class != "row" || f.Prompt != "" {
			t.Errorf("an unexpected failure: %+v", f)
		}
	}
	if !found {
		t.Error("the row with the damaged prompt is not in the failures")
	}
	j.SameAs(t, j.Elsewhere(t))

	flipAt(t, path, "PAR1", 0) // without PAR1 the file is not parquet: exit code 2
	if _, err := j.Elsewhere(t).Run(); fault.ExitCode(err) == fault.ExitDone || !strings.Contains(fmt.Sprint(err), path) {
		t.Errorf("a file that is not parquet: got error %v, want exit code 2", err)
	}
}

// TestDamagedPageOfEmbeddings: if a page of tensors is damaged, only the rows with these tensors are lost.
func TestDamagedPageOfEmbeddings(t *testing.T) {
	texts := jobtest.NewJob(t, "id,prompt\na,a red circle\nb,a blue square\nc,a green triangle\n")
	texts.Stages, texts.Sets = "[encode_text]", []string{"output.write=[embeddings]"}
	texts.MustRun(t)
	table := filepath.Join(texts.Out, "tables", "embeddings", "00000.parquet")
	rows := jobtest.ReadRows[schemas.EmbeddingRow](t, texts.Out, "embeddings")
	flipAt(t, table, string(rows[1].TextEmbeddingBytes[:64]), 40)
	j := jobtest.Job{Input: fmt.Sprintf("{embeddings: %q}", table), Out: filepath.Join(t.TempDir(), "out"), Stages: "[denoise]",
		Sets: []string{"output.write=[latents]"}}
	r := j.MustRun(t)
	failures := jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures")
	if r.Totals.Done+r.Totals.Failed != 3 || r.Totals.Failed == 0 || int(r.Totals.Failed) != len(failures) {
		t.Fatalf("got totals %+v, %d failures", r.Totals, len(failures))
	}
	for _, f := range failures {
		if !strings.Contains(f.Message, "text_embedding_bytes: page ") || !strings.Contains(f.Message, "of row group 0") {
			t.Errorf("row %s fails with the message %s", f.ID, f.Message)
		}
	}
}
