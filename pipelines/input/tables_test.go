package input

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/schemas"
)

// rowsOf reads the rows of a job's media: paths below the root, ids and captions.
func rowsOf(t *testing.T, root, media string) (rows, notes []string) {
	t.Helper()
	cfg, err := config.Parse("job.yaml", fmt.Sprintf("version: 1\nmodel: tiny\ninput: {media: %q}\nstages: [encode_vae]\noutput: {path: out, write: [latents]}\n",
		filepath.Join(root, media)), nil)
	if err != nil {
		t.Fatal(err)
	}
	in := New(cfg, 0, schemas.PromptRow{}, nil)
	all, err := in.Open(true)
	if err != nil {
		return []string{err.Error()}, nil
	}
	for e, err := range all.Rows(t.Context(), false) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.TrimPrefix(e.Row.Media, root+"/")+" "+e.Row.ID+" "+e.Row.Prompt)
	}
	return rows, in.Notes()
}

// TestTablesOfMedia: rows, ids and captions come from lists of media, from folders of tables, and from JSON files beside the media.
func TestTablesOfMedia(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"pairs/videos.txt": "videos/a.mp4\nvideos/b.mp4\n", "pairs/prompts.txt": "one\ntwo\n", "pairs/videos/a.mp4": "", "pairs/videos/b.mp4": "",
		"lines/a.jsonl": `{"path": "x.mp4", "caption": ["one", "two"]}`,
		"json/a.mp4":    "", "json/a.json": `{"caption": "x"}`, "json/a.txt": "text",
		"array/all.json":      `[{"path": "x.mp4", "cap": ["one"]}]`,
		"captions/a.txt":      "one",
		"meta/metadata.jsonl": `{"file_name": "a.mp4", "text": ["one", "two"]}`, "meta/a.mp4": "",
	} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pairs := []string{"pairs/videos/a.mp4 videos/a one", "pairs/videos/b.mp4 videos/b two"}
	for media, want := range map[string][]string{
		"pairs":            pairs,
		"pairs/videos.txt": pairs,
		"array/all.json":   {"x.mp4 * one"},
		"lines":            {"x.mp4 * one", "x.mp4 * two"},
		"json/*":           {"json/a.mp4 a text"},
		"meta":             {"meta/a.mp4 a#c000 one", "meta/a.mp4 a#c001 two"},
		"captions/*":       {"there are captions but no media"},
	} {
		got, notes := rowsOf(t, root, media)
		match := slices.EqualFunc(got, want, func(g, w string) bool {
			first, last, any := strings.Cut(w, "*")
			return g == w || any && strings.HasPrefix(g, first) && strings.HasSuffix(g, last) || strings.Contains(g, "job.yaml") && strings.Contains(g, w)
		})
		if !match {
			t.Errorf("media %s: got rows %q, want %q", media, got, want)
		}
		if said := strings.Contains(strings.Join(notes, "\n"), "1 json files that share their name"); said != (media == "json/*") {
			t.Errorf("media %s: got notes %q", media, notes)
		}
	}
}
