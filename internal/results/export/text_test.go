package export

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/results/report"
	"latentbeam/schemas"
)

// TestAdviceForMissingTexts: the advice for rows without a text depends on their job.
func TestAdviceForMissingTexts(t *testing.T) {
	for config, want := range map[string]string{
		`{"stages": [{"encode_vae": {}}, {"encode_text": {}}], "output": {"write": ["latents"]}}`: "its job has encode_text, and writes [latents] alone: run it again with " +
			"output: {write: [latents, embeddings]}, or name the output of a text job by --text",
		`{"stages": [{"encode_vae": {}}], "output": {"write": ["latents"]}}`:               "add encode_text to the stages and embeddings to output.write, or name",
		`{"stages": [{"encode_vae": {}}], "output": {"write": ["latents", "embeddings"]}}`: "add encode_text to the stages, or name",
		``: "add encode_text to the stages, or name",
	} {
		if got := textFix(report.Summary{Config: json.RawMessage(config)}, false); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	if got := textFix(report.Summary{}, true); !strings.Contains(got, "--text has no embedding of this id") {
		t.Error(got)
	}
}

// TestRowsWithoutText: formats that take rows without a text count them.
func TestRowsWithoutText(t *testing.T) {
	for _, format := range []string{"webdataset", "hf", "safetensors"} {
		s := output(t, 3, func(i int, r *schemas.LatentRow) {
			if i > 0 {
				r.TextEmbeddingBytes, r.TextEmbeddingShape, r.TextEmbeddingDType = nil, nil, ""
			}
		})
		done, err := Run(t.Context(), s, filepath.Join(t.TempDir(), "out"), Options{To: format})
		if err != nil || done.NoText != 2 || done.Rows != 3 || !strings.Contains(done.Fix, "encode_text") {
			t.Errorf("%s: %+v, %v", format, done, err)
		}
	}
}

// TestLongIDs: ids that are too long for file names get different short names. Windows of one video share
// their text.
func TestLongIDs(t *testing.T) {
	long := strings.Repeat("a very long caption as an id ", 12)
	for format, want := range map[string]int{"safetensors": 2, "musubi": 4} {
		s := output(t, 2, func(i int, r *schemas.LatentRow) { r.ID = long + string(rune('a'+i)) })
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := Run(t.Context(), s, dir, Options{To: format}); err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		files := 0
		must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".safetensors") {
				files++
			}
			if len(filepath.Base(path)) > 255 {
				t.Errorf("%s: a name of %d bytes", format, len(filepath.Base(path)))
			}
			return err
		}))
		if files != want {
			t.Errorf("%s: %d files, want %d", format, files, want)
		}
	}
}
