package stages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/system"
	"latentbeam/stages/weights/checkpoint"
	"latentbeam/stages/weights/hub"
	"latentbeam/stages/weights/safetensors"
)

// Model is a model in the published layout: a model_index.json and one directory for each component (text_encoder, transformer,
// vae). It is embedded in the binary or on disk; on disk each component may have a directory elsewhere.
type Model struct {
	Name  string
	Index Index
	// Guess derives the config.json of a component without one from its tensors. It may be nil.
	Guess func(component string, weights *safetensors.File) ([]byte, error)
	// Names returns our name for each tensor of a file that uses other names, nil if the file uses ours. It may be nil.
	Names func(tensors []safetensors.TensorInfo) map[string]string
	// Loras are added to the weights of the denoisers, in this order.
	Loras   []Lora
	adapted []Adapted
	// OtherNames returns other names of a component's tensor that adapters may use. It may be nil.
	OtherNames func(component, tensor string) []string
	// PlanOnly allows components whose weights are missing: their config.json is enough to plan. Nothing can be computed with
	// them. Lacks lists the missing parts.
	PlanOnly bool
	lacks    []string
	files    fs.FS
	// dirs has the directories of the components on disk, for memory-mapping; nil if the model is embedded.
	dirs map[string]string
	// named has the base name of the weights file for components that were given as a file.
	named map[string]string
}

// components are the directories of a model in the published layout.
var components = []string{"text_encoder", "tokenizer", "transformer", "transformer_2", "image_encoder", "vae"}

// Index is the model_index.json.
type Index struct {
	ClassName ClassName `json:"_class_name"`
	// BoundaryRatio is the part of the noise at which the second denoiser takes over; nil: there is one denoiser.
	BoundaryRatio *float64 `json:"boundary_ratio"`
	// ImageEncoder has the library and the class of the image encoder; empty or nulls: there is none.
	ImageEncoder []*string `json:"image_encoder"`
	// ExpandTimesteps says that the denoiser takes a timestep for each token.
	ExpandTimesteps bool `json:"expand_timesteps"`
	// Version is the version of the model's family, such as "1.2" of Open-Sora.
	Version string `json:"version"`
	// Defaults are used if neither the job's YAML nor the row sets a value.
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

// OpenModel opens the model in directory dir, or a repository that was pulled, such as "OWNER/NAME" or "OWNER/NAME@REVISION". A
// GGUF, or a directory with one, is a model of one component.
func OpenModel(dir string) (*Model, error) {
	name := filepath.Base(checkpoint.Snapshot(dir))
	dir, repo := locate(dir)
	if repo != "" {
		name = repo
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open model %q: %w; give a directory with %s in it, a path for each, or tiny%s", dir, err,
			strings.Join(components, ", "), notFetched(dir))
	}
	if !info.IsDir() && filepath.Ext(dir) == checkpoint.GGUF {
		return openGGUFModel(name, dir)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open model %q: not a directory; give the one with %s in it, or name a single component "+
			"as one: model: {transformer: %s}", dir, strings.Join(components, ", "), dir)
	}
	dirs := map[string]string{}
	for _, c := range components {
		dirs[c] = filepath.Join(dir, c)
	}
	if !slices.ContainsFunc(append([]string{"model_index.json"}, components...), func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}) {
		if file, err := checkpoint.Find(os.DirFS(dir), "."); err == nil && path.Ext(file) == checkpoint.GGUF {
			return openGGUFModel(name, filepath.Join(dir, file))
		}
		return nil, fmt.Errorf("open model %q: it holds neither model_index.json nor %s; %s", dir,
			strings.Join(components, ", "), insteadOf(dir))
	}
	return newModel(name, system.RegularFS(dir), dirs)
}

// insteadOf suggests how to name a model inside a directory that is not a whole model.
func insteadOf(dir string) string {
	entries, _ := os.ReadDir(dir) // OpenModel has read it before
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			dirs = append(dirs, e.Name())
		}
	}
	if len(dirs) > 1 { // repositories of a hub side by side
		const most = 20
		return fmt.Sprintf("name its parts: model: {text_encoder: %s, transformer: ..., vae: ...}; it holds %s",
			filepath.Join(dir, "..."), strings.Join(dirs[:min(len(dirs), most)], ", "))
	}
	if len(entries) == 0 {
		return "the directory is empty"
	}
	return fmt.Sprintf("if it is a single component, name it as one: model: {transformer: %s}", dir)
}

// locate returns the directory of a path: the path itself, a repository's files in a cache, or a pulled repository with its
// name. A path that exists on disk wins.
func locate(path string) (dir, repo string) {
	if _, err := os.Stat(path); err == nil {
		return checkpoint.Snapshot(path), ""
	}
	r, err := hub.ParseRepo(path)
	if err != nil {
		return path, ""
	}
	cache, err := hub.DefaultCache()
	if err != nil {
		return path, ""
	}
	if dir, _, err = cache.Find(r); err != nil {
		return path, ""
	}
	return dir, r.String()
}

// notFetched says how to pull a path that looks like the name of a repository and does not exist.
func notFetched(path string) string {
	r, err := hub.ParseRepo(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("; if it is a repository on a hub, run `latentbeam pull %s` first", r)
}

// OpenComponents makes a model from one path for each component, such as {"text_encoder": "models/t5-v1_1-xxl"}. A path is a
// directory in the layout of the hubs, or a safetensors file, an index or a GGUF with or without a config.json beside it.
func OpenComponents(paths map[string]string) (*Model, error) {
	files, dirs, named, err := mount(paths)
	if err != nil {
		return nil, err
	}
	m, err := newModel("components", files, dirs)
	if err != nil {
		return nil, err
	}
	m.named = named
	return m, nil
}

// Replace replaces components of the model by other paths, which OpenComponents describes. A new component without a
// config.json uses the model's. The model must be on disk.
func (m *Model) Replace(paths map[string]string) error {
	files, dirs, named, err := mount(paths)
	if err != nil {
		return err
	}
	for beside := range files {
		if _, given := paths[beside]; !given {
			if _, err := fs.Stat(files[beside], "."); err != nil {
				delete(files, beside) // the model's own
			}
		}
	}
	m.files, m.named = overlayFS{files, m.files}, named
	maps.Copy(m.dirs, dirs)
	return nil
}

// overlayFS serves the files of a model with some components replaced by others.
type overlayFS struct {
	mounts
	base fs.FS
}

// Open opens a file of a replaced component, or else a file of the model. The model's config.json is used if a replaced
// component has none.
func (o overlayFS) Open(name string) (fs.File, error) {
	component, rest, _ := strings.Cut(name, "/")
	if o.mounts[component] == nil {
		return o.base.Open(name)
	}
	f, err := o.mounts.Open(name)
	if rest == "config.json" && errors.Is(err, fs.ErrNotExist) {
		return o.base.Open(name)
	}
	return f, err
}

// mount returns the file systems of components, their directories, and the names of weights that were given as files.
func mount(paths map[string]string) (files mounts, dirs, named map[string]string, err error) {
	files, dirs, named = mounts{}, map[string]string{}, map[string]string{}
	for c, p := range paths {
		p, repo := locate(p)
		if part := filepath.Join(p, c); isDir(part) && (repo != "" || !exists(filepath.Join(p, "config.json"))) { // p is a whole model
			p = part
		}
		info, err := os.Stat(p)
		switch {
		case err != nil:
			return nil, nil, nil, fmt.Errorf("open model: %s is %q: %w%s", c, p, err, notFetched(p))
		case info.IsDir():
			dirs[c] = p
		case checkpoint.IsPickleName(p):
			return nil, nil, nil, fmt.Errorf("open model: %s is %q: %w: latentbeam convert %s", c, p, checkpoint.ErrPickle, p)
		default:
			dirs[c], named[c] = filepath.Dir(p), filepath.Base(p)
		}
		files[c] = system.RegularFS(dirs[c])
	}
	for component, beside := range map[string]string{"text_encoder": "tokenizer", "image_encoder": "image_processor"} {
		if dir, ok := dirs[component]; ok { // some hubs nest the component in a directory
			files[beside] = system.RegularFS(filepath.Join(filepath.Dir(filepath.Clean(dir)), beside))
		}
	}
	return files, dirs, named, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// mounts is a file system that maps each top-level directory to a file system of its own.
type mounts map[string]fs.FS

// Open opens a file of the component that the path starts with.
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

// EmbeddedModel returns the model in files, a file system in the binary.
func EmbeddedModel(name string, files fs.FS) (*Model, error) { return newModel(name, files, nil) }

func newModel(name string, files fs.FS, dirs map[string]string) (*Model, error) {
	m := &Model{Name: name, files: files, dirs: dirs}
	if err := m.ReadJSON("model_index.json", &m.Index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	m.Index.completePlan(m)
	return m, nil
}

// PlanPipeline is the class name for whole models of Open-Sora-Plan; Plan12 and Plan13 are its versions. The project publishes
// no model_index.json, so the class of the denoiser decides.
const (
	PlanPipeline   = "OpenSoraPlanPipeline"
	Plan12, Plan13 = "1.2", "1.3"
)

// planVersions maps the class in transformer/config.json to the version.
var planVersions = map[string]string{"OpenSoraT2V": Plan12, "OpenSoraT2V_v1_3": Plan13}

// completePlan fills in the index of a model of Open-Sora-Plan.
func (i *Index) completePlan(m *Model) {
	if i.ClassName != "" && i.ClassName != PlanPipeline {
		return
	}
	var denoiser struct {
		ClassName ClassName `json:"_class_name"`
	}
	if m.ReadJSON("transformer/config.json", &denoiser) != nil {
		return // callers that need it report the error
	}
	if version := planVersions[string(denoiser.ClassName)]; version != "" {
		i.ClassName, i.Version = PlanPipeline, version
	}
}

// maxFile limits the size in bytes of a model's file that is read into memory. The largest are tokenizers of 40 MB.
const maxFile = 256 << 20

// ReadFile reads a file of the model, such as "text_encoder/spiece.model".
func (m *Model) ReadFile(name string) ([]byte, error) {
	data, err := system.ReadFileOf(m.files, name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read model %s: %w", m.Name, err)
	}
	return data, nil
}

// ReadJSON decodes a JSON file of the model into target. It ignores unknown keys, because published configurations have many
// that do not concern inference.
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

// Config returns the config.json of a component. If there is none, it returns what Guess derives from the tensors.
func (m *Model) Config(component string) ([]byte, error) {
	data, missing := m.ReadFile(component + "/config.json")
	if missing == nil || m.Guess == nil || !errors.Is(missing, fs.ErrNotExist) {
		return data, missing
	}
	weights, err := m.Weights(component)
	if err != nil {
		return nil, err
	}
	data, err = m.Guess(component, weights)
	if err != nil {
		err = fmt.Errorf("%w, and its tensors do not tell: %w", missing, err)
	}
	return data, errors.Join(err, weights.Close())
}

// Lack records what as missing and returns true, if PlanOnly is set and err says that a file does not exist.
func (m *Model) Lack(what string, err error) bool {
	if !m.PlanOnly || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	m.lacks = append(m.lacks, what)
	return true
}

// Lacks lists the missing parts of the model.
func (m *Model) Lacks() []string { return m.lacks }

// where names a component for messages: its directory, or its name in the binary.
func (m *Model) where(component string) string {
	if dir, ok := m.dirs[component]; ok {
		return fmt.Sprintf("%s, %s", component, dir)
	}
	return m.Name + "/" + component
}

// Weights opens the weights of a component: a safetensors file, its shards, or a GGUF; memory-mapped on disk. It tries the file
// names that hubs use, and refuses pickles. Tensors with the names of other code are renamed as `latentbeam convert` does.
func (m *Model) Weights(component string) (*safetensors.File, error) {
	f, err := m.open(component)
	if err != nil || m.Names == nil {
		return f, err
	}
	if names := m.Names(f.Infos()); names != nil {
		if err := f.Rename(names); err != nil {
			return nil, errors.Join(fmt.Errorf("open weights of %s: %w", m.where(component), err), f.Close())
		}
	}
	return f, nil
}

// open opens the weights of a component without renaming tensors.
func (m *Model) open(component string) (*safetensors.File, error) {
	name := m.named[component]
	if _, given := m.dirs[component]; !given && m.dirs != nil {
		return nil, fmt.Errorf("the model has no %s: name it as model: {%s: DIR}: %w", component, component,
			fs.ErrNotExist)
	}
	if name == "" {
		var err error
		if name, err = checkpoint.Find(m.files, component); err != nil {
			return nil, fmt.Errorf("open weights of %s: %w", m.where(component), err)
		}
	}
	dir, onDisk := m.dirs[component]
	switch {
	case onDisk && path.Ext(name) == checkpoint.GGUF:
		return openGGUF(component, filepath.Join(dir, name))
	case onDisk:
		return checkpoint.OpenWeights(filepath.Join(dir, name))
	case safetensors.IsIndex(name):
		return nil, fmt.Errorf("open weights of %s/%s: an embedded model is one file, not shards", m.Name, component)
	}
	data, err := m.ReadFile(path.Join(component, name))
	if err != nil {
		return nil, err
	}
	return safetensors.New(data)
}
