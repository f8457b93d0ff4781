package export

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// recorder stores the samples that it gets, and fails at one row.
type recorder struct {
	samples []schemas.ExportSample
	failAt  int // 0: never
	closed  int
}

func (r *recorder) Add(s schemas.ExportSample) error {
	if r.samples = append(r.samples, s); len(r.samples) == r.failAt {
		return errors.New("the trainer does not want it")
	}
	return nil
}

func (r *recorder) Close() error { r.closed++; return nil }

// TestOutside: a format of another program gets latents in its space, texts and statistics. Its errors end the export, which then
// leaves no files.
func TestOutside(t *testing.T) {
	before := maps.Clone(formats)
	t.Cleanup(func() { formats = before })
	var now *recorder
	open := func(string) (schemas.ExportWriter, error) { return now, nil }
	must(t, Add([]schemas.ExportFormat{{Name: "mine", Space: "raw", Open: open}, {Name: "models", Space: "model", Open: open}}))
	for _, wrong := range []schemas.ExportFormat{{Name: "mine", Open: open}, {Name: "hf", Open: open}, {Open: open}, {Name: " x", Open: open}, {Name: "y"},
		{Name: "z", Space: "latent", Open: open}} {
		if err := Add([]schemas.ExportFormat{wrong}); err == nil {
			t.Errorf("the invalid format %q was added", wrong.Name)
		}
	}
	now = &recorder{}
	done, err := Run(t.Context(), clipsOutput(t), filepath.Join(t.TempDir(), "out"), Options{To: "mine"})
	if err != nil || done.Rows != 4 || len(now.samples) != 4 || now.closed != 1 {
		t.Fatalf("%+v, %v, %d samples", done, err, len(now.samples))
	}
	raw := now
	now = &recorder{}
	_, err = Run(t.Context(), clipsOutput(t), filepath.Join(t.TempDir(), "out"), Options{To: "models"})
	must(t, err)
	for i, s := range raw.samples {
		m := now.samples[i]
		per := len(s.Latents) / len(s.Mean)
		if want := float32(float64(m.Latents[per])*s.Std[1] + s.Mean[1]); s.Latents[per] != want || slices.Equal(s.Latents, m.Latents) {
			t.Errorf("row %d: raw %g, want %g", i, s.Latents[per], want)
		}
		if int64(len(s.Text)) != s.TextShape[0]*s.TextShape[1] || s.Row.VAELatentBytes != nil || s.Name == "" {
			t.Errorf("row %d: %d numbers of text %v, name %q", i, len(s.Text), s.TextShape, s.Name)
		}
	}
	now = &recorder{failAt: 2}
	dir := filepath.Join(t.TempDir(), "out")
	if _, err = Run(t.Context(), clipsOutput(t), dir, Options{To: "mine"}); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "does not want it") {
		t.Errorf("a writer that fails: %v", err)
	}
	if _, err := os.Stat(dir + ".partial"); !errors.Is(err, fs.ErrNotExist) || now.closed != 1 {
		t.Errorf("the failed export leaves files, or its writer was closed %d times", now.closed)
	}
}
