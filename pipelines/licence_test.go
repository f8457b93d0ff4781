package pipelines_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/results/report"
)

// licensed is the built-in model in a directory of its own, with files beside it.
func licensed(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("../testdata/tiny")))
	must(t, os.RemoveAll(filepath.Join(dir, "README.md")))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// licensedRow are the columns of the tables of videos about the licence.
type licensedRow struct {
	ID       string `parquet:"id"`
	Licence  string `parquet:"model_licence"`
	Revision string `parquet:"model_revision"`
}

// TestLicence: rows, metadata, the data card and the summary say the licence of the weights, or that it is unknown; require_licence
// refuses others before anything is written.
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
		j := newJob(t, diskTable)
		j.sets = []string{fmt.Sprintf("model=%q", licensed(t, c.files))}
		j.mustRun(t)
		rows := readRows[licensedRow](t, j.out, "videos")
		for _, r := range rows {
			if r.Licence != c.licence {
				t.Errorf("%s: row %s has %q, want %q", name, r.ID, r.Licence, c.licence)
			}
		}
		for _, table := range []string{"videos", "latents", "embeddings", "failures"} {
			f, err := os.Open(filepath.Join(j.out, "tables", table, "00000.parquet"))
			must(t, err)
			info, err := f.Stat()
			must(t, err)
			p, err := parquet.OpenFile(f, info.Size())
			must(t, err)
			if got, _ := p.Lookup("latentbeam.model_licence"); got != c.licence {
				t.Errorf("%s: the metadata of %s has %q", name, table, got)
			}
			must(t, f.Close())
		}
		card, err := os.ReadFile(filepath.Join(j.out, "README.md"))
		must(t, err)
		if !strings.Contains(string(card), c.card) {
			t.Errorf("%s: the card is\n%s", name, card)
		}
		s, err := report.ReadSummary(t.Context(), openDir(t, j.out), "summary.json")
		must(t, err)
		if len(s.Terms) != 1 || s.Terms[0].Licence != c.licence {
			t.Errorf("%s: the summary has %+v", name, s.Terms)
		}

		for list, fits := range map[string]bool{"[Apache-2.0, mit]": name == "known", "[unknown]": name == "unknown", "[mit, My Own Licence]": name == "other"} {
			strict := j.elsewhere(t)
			strict.sets = append(strict.sets, j.sets[0], "require_licence="+list)
			_, err := strict.run()
			if fits != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.licence) || !strings.Contains(err.Error(), "require_licence")) {
				t.Errorf("%s, require_licence: %s: %v", name, list, err)
			}
			if _, statErr := os.Stat(strict.out); (statErr == nil) != fits {
				t.Errorf("%s, require_licence: %s: the output is there: %v", name, list, statErr)
			}
		}
	}
	j := newJob(t, diskTable)
	j.sets = []string{"require_licence=[apache-2.0]"}
	j.mustRun(t) // the built-in model
	programs := newJob(t, diskTable)
	programs.stages = "[" + program(t, "prompt", "prompt", "") + ", encode_text, denoise, decode_vae, encode_video]"
	programs.sets = j.sets
	if _, err := programs.run(); err == nil || !strings.Contains(err.Error(), "program exec: unknown") {
		t.Errorf("a program whose model nobody knows: %v", err)
	}
}

// Schema and ByteSize make it a row; it is only read.
func (licensedRow) Schema() string { return "" }
func (licensedRow) ByteSize() int  { return 0 }
