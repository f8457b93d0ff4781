package stages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// layOut writes files into a new directory.
func layOut(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenModelSaysWhatIsWrong(t *testing.T) {
	dir := layOut(t, map[string]string{"file": "", "broken/model_index.json": "{"})
	for path, want := range map[string]string{
		"missing": "no such file or directory; give a directory with model_index.json, or tiny",
		"file":    "not a directory; give the directory that holds model_index.json",
		"broken":  "model_index.json: unexpected EOF",
	} {
		if _, err := OpenModel(filepath.Join(dir, path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	_, err := OpenComponents(map[string]string{"vae": filepath.Join(dir, "file")})
	if err == nil || !strings.Contains(err.Error(), "open model: vae is") {
		t.Errorf("a component that is a file: %v", err)
	}
}

func TestModelFiles(t *testing.T) {
	dir := layOut(t, map[string]string{
		"model_index.json":      `{"defaults": {"height": 64, "guidance_scale": 0}, "unknown": 1}`,
		"text_encoder/a.json":   `{"b": 1, "c": 2}`,
		"transformer/model.bin": "", "transformer/config.json": "{}",
	})
	m, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Index.Defaults; d.Height != 64 || d.GuidanceScale == nil || *d.GuidanceScale != 0 || d.Width != 0 {
		t.Errorf("defaults %+v", d)
	}
	parts, err := OpenComponents(map[string]string{"text_encoder": filepath.Join(dir, "text_encoder")})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Model{m, parts} {
		var got struct{ B int }
		if err := m.ReadJSON("text_encoder/a.json", &got); err != nil || got.B != 1 {
			t.Errorf("%s: %+v, %v", m.Name, got, err)
		}
		_, err := m.ReadFile("vae/config.json")
		if err == nil || !strings.Contains(err.Error(), "read model "+m.Name) {
			t.Errorf("%s: a file that is not there: %v", m.Name, err)
		}
	}
	for component, want := range map[string]string{
		"transformer":  "(it holds config.json, model.bin); PyTorch pickles can run code when read and are refused",
		"text_encoder": "(it holds a.json)",
		"vae":          "(the directory is missing)",
	} {
		if _, err := m.Weights(component); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("weights of %s: %v, want %s", component, err, want)
		}
	}
}
