package stages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"latentbeam/internal/safetensors"
)

// Model is a model in the published layout: a model_index.json and a directory for each component
// (text_encoder, transformer, vae). It is either embedded in the binary or a directory on disk.
type Model struct {
	Name  string
	Index Index
	files fs.FS
	// dirs are the directories of the components on disk, for memory-mapping; nil when embedded.
	dirs map[string]string
}

// components are the directories of a model in the published layout.
var components = []string{"text_encoder", "tokenizer", "transformer", "vae"}

// Index is the model_index.json.
type Index struct {
	ClassName string `json:"_class_name"`
	// Version is that of the model's family, such as "1.2" of Open-Sora.
	Version string `json:"version"`
	// Defaults are what a job takes where neither its YAML nor the row says otherwise.
	Defaults struct {
		NumFrames         int      `json:"num_frames"`
		Height            int      `json:"height"` // pixels
		Width             int      `json:"width"`  // pixels
		FPS               float64  `json:"fps"`
		NumInferenceSteps int      `json:"num_inference_steps"`
		GuidanceScale     *float64 `json:"guidance_scale"`
		MaxSequenceLength int      `json:"max_sequence_length"` // tokens
	} `json:"defaults"`
}

// OpenModel opens the model in directory dir.
func OpenModel(dir string) (*Model, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open model %q: %w; give a directory with model_index.json, or tiny", dir, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open model %q: not a directory; give the directory that holds model_index.json", dir)
	}
	dirs := map[string]string{}
	for _, c := range components {
		dirs[c] = filepath.Join(dir, c)
	}
	return newModel(filepath.Base(dir), os.DirFS(dir), dirs)
}

// OpenComponents puts a model together from a directory for each component, such as
// {"text_encoder": "models/t5-v1_1-xxl"}.
func OpenComponents(dirs map[string]string) (*Model, error) {
	files := mounts{}
	for c, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("open model: %s is %q, which is not a directory", c, dir)
		}
		files[c] = os.DirFS(dir)
	}
	return newModel("components", files, dirs)
}

// mounts is a file system whose top-level directories lie in different places.
type mounts map[string]fs.FS

// Open opens a file of the component that the path begins with.
func (m mounts) Open(name string) (fs.File, error) {
	component, rest, _ := strings.Cut(name, "/")
	if sub, ok := m[component]; ok {
		if rest == "" {
			rest = "."
		}
		return sub.Open(rest)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// EmbeddedModel returns the model in files, which live in the binary.
func EmbeddedModel(name string, files fs.FS) (*Model, error) { return newModel(name, files, nil) }

func newModel(name string, files fs.FS, dirs map[string]string) (*Model, error) {
	m := &Model{Name: name, files: files, dirs: dirs}
	if err := m.ReadJSON("model_index.json", &m.Index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return m, nil
}

// ReadFile reads a file of the model, such as "text_encoder/spiece.model".
func (m *Model) ReadFile(name string) ([]byte, error) {
	data, err := fs.ReadFile(m.files, name)
	if err != nil {
		return nil, fmt.Errorf("read model %s: %w", m.Name, err)
	}
	return data, nil
}

// ReadJSON decodes a JSON file of the model into target; unknown keys are allowed, since published
// configurations carry many that do not concern inference.
func (m *Model) ReadJSON(name string, target any) error {
	data, err := m.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(target); err != nil {
		return fmt.Errorf("read model %s: %s: %w", m.Name, name, err)
	}
	return nil
}

// Weights opens the safetensors file of a component, memory-mapped where it lies on disk. The usual
// names are tried: model.safetensors, diffusion_pytorch_model.safetensors. Pickles are refused.
func (m *Model) Weights(component string) (*safetensors.File, error) {
	for _, name := range []string{"model.safetensors", "diffusion_pytorch_model.safetensors"} {
		file := path.Join(component, name)
		if _, err := fs.Stat(m.files, file); err != nil {
			continue
		}
		if dir, ok := m.dirs[component]; ok {
			return safetensors.Open(filepath.Join(dir, name))
		}
		data, err := m.ReadFile(file)
		if err != nil {
			return nil, err
		}
		return safetensors.New(data)
	}
	return nil, fmt.Errorf("open weights of %s/%s: no model.safetensors or diffusion_pytorch_model.safetensors there%s",
		m.Name, component, m.found(component))
}

// found says which files a component holds, for the error above.
func (m *Model) found(component string) string {
	entries, err := fs.ReadDir(m.files, component)
	if err != nil {
		return " (the directory is missing)"
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	hint := ""
	for _, n := range names {
		if strings.HasSuffix(n, ".bin") || strings.HasSuffix(n, ".pth") || strings.HasSuffix(n, ".pt") {
			hint = "; PyTorch pickles can run code when read and are refused: save them as safetensors"
		}
	}
	return fmt.Sprintf(" (it holds %s)%s", strings.Join(names, ", "), hint)
}
