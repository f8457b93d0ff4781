package marks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/results/report"
)

// licensed copies the built-in model to a new directory, together with further files.
func licensed(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	jobtest.Must(t, os.CopyFS(dir, os.DirFS("../../../testdata/tiny")))
	jobtest.Must(t, os.RemoveAll(filepath.Join(dir, "README.md")))
	for name, text := range files {
		jobtest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// licensedRow reads the columns about the licence in tables of videos.
type licensedRow struct {
	ID       string `parquet:"id"`
	Licence  string `parquet:"model_licence"`
	Revision string `parquet:"model_revision"`
}

// TestLicence: rows, metadata, the data card and the summary contain the licence of the weights, or "unknown". With require_licence,
// other licences are an error before anything is written.
func TestLicence(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		licence string
		card    string
	}{
		"known":   {map[string]string{"README.md": "---\nlicense: apache-2.0\n---\n# A model\n"}, "apache-2.0", "license: apache-2.0\ntags:\n- synthetic\n"},
		"unknown": {nil, "unknown", "license: unknown\n"},
		"other":   {map[string]string{"LICENSE": "My Own Licence\nUse it well.\n"}, "My Own Licence", "license: other\n"},
	} {
		j := jobtest.NewJob(t, jobtest.DiskTable)
		j.Sets = []string{fmt.Sprintf("model=%q", licensed(t, c.files))}
		j.MustRun(t)
		rows := jobtest.ReadRows[licensedRow](t, j.Out, "videos")
		for _, r := range rows {
			if r.Licence != c.licence {
				t.Errorf("%s: row %s has the licence %q, want %q", name, r.ID, r.Licence, c.licence)
			}
		}
		for _, table := range []string{"videos", "latents", "embeddings", "failures"} {
			f, err := os.Open(filepath.Join(j.Out, "tables", table, "00000.parquet"))
			jobtest.Must(t, err)
			info, err := f.Stat()
			jobtest.Must(t, err)
			p, err := parquet.OpenFile(f, info.Size())
			jobtest.Must(t, err)
			if got, _ := p.Lookup("latentbeam.model_licence"); got != c.licence {
				t.Errorf("%s: the metadata of %s has the licence %q", name, table, got)
			}
			jobtest.Must(t, f.Close())
		}
		card, err := os.ReadFile(filepath.Join(j.Out, "README.md"))
		jobtest.Must(t, err)
		if !strings.Contains(string(card), c.card) {
			t.Errorf("%s: the data card does not have the licence:\n%s", name, card)
		}
		s, err := report.ReadSummary(t.Context(), openDir(t, j.Out), "summary.json")
		jobtest.Must(t, err)
		if len(s.Terms) != 1 || s.Terms[0].Licence != c.licence {
			t.Errorf("%s: the summary does not have the licence: %+v", name, s.Terms)
		}

		for list, fits := range map[string]bool{"[Apache-2.0, mit]": name == "known", "[unknown]": name == "unknown", "[mit, My Own Licence]": name == "other"} {
			strict := j.Elsewhere(t)
			strict.Sets = append(strict.Sets, j.Sets[0], "require_licence="+list)
			_, err := strict.Run()
			if fits != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.licence) || !strings.Contains(err.Error(), "require_licence")) {
				t.Errorf("%s, require_licence: %s: got error %v", name, list, err)
			}
			if _, statErr := os.Stat(strict.Out); (statErr == nil) != fits {
				t.Errorf("%s, require_licence: %s: the output was created: %v", name, list, statErr)
			}
		}
	}
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"require_licence=[apache-2.0]"}
	j.MustRun(t) // the built-in model
	programs := jobtest.NewJob(t, jobtest.DiskTable)
	programs.Stages = "[" + jobtest.Program(t, "prompt", "prompt", "") + ", encode_text, denoise, decode_vae, encode_video]"
	programs.Sets = j.Sets
	if _, err := programs.Run(); err == nil || !strings.Contains(err.Error(), "program exec: unknown") {
		t.Errorf("a stage that is a program with an unknown model: got error %v", err)
	}
}

// Schema and ByteSize implement schemas.Row. They are not used, because the row is only read.
func (licensedRow) Schema() string { return "" }
func (licensedRow) ByteSize() int  { return 0 }
