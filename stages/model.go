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

// Model is a model in the published layout: a model_index.json and a directory for each component
// (text_encoder, transformer, vae). It is either embedded in the binary or on disk, where each component may
// lie elsewhere.
type Model struct {
	Name  string
	Index Index
	// Guess makes the config.json of a component that was published without one from its tensors. Nil: nobody can.
	Guess func(component string, weights *safetensors.File) ([]byte, error)
	// Names returns what the tensors of a file are called here, nil where they have these names. Nil: all have.
	Names func(tensors []safetensors.TensorInfo) map[string]string
	// Loras are added to the weights of the denoisers, in this order.
	Loras   []Lora
	adapted []Adapted
	// OtherNames returns what else a tensor of a component is called, for adapters. Nil: nothing.
	OtherNames func(component, tensor string) []string
	// PlanOnly lets components whose weights are not there be known by their config.json alone. Nothing can be computed by them; Lacks
	// names what was not there.
	PlanOnly bool
	lacks    []string
	files    fs.FS
	// dirs are the directories of the components on disk, for memory-mapping; nil when embedded.
	dirs map[string]string
	// named are the weights of components that are given as a file, by the file's name.
	named map[string]string
}

// components are the directories of a model in the published layout.
var components = []string{"text_encoder", "tokenizer", "transformer", "transformer_2", "image_encoder", "vae"}

// Index is the model_index.json.
type Index struct {
	ClassName ClassName `json:"_class_name"`
	// BoundaryRatio is the part of the noise at which the second of two denoisers takes over; nil: there is one denoiser.
	BoundaryRatio *float64 `json:"boundary_ratio"`
	// ImageEncoder names the library and the class of the image encoder; nulls, or nothing: there is none.
	ImageEncoder []*string `json:"image_encoder"`
	// ExpandTimesteps says that the denoiser takes a timestep for each token.
	ExpandTimesteps bool `json:"expand_timesteps"`
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

// OpenModel opens the model in directory dir, or a repository that was pulled, such as "OWNER/NAME" or
// "OWNER/NAME@REVISION". A GGUF, or a directory with one, is a model of one component.
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

// insteadOf says how to name what is in a directory that is not a whole model.
func insteadOf(dir string) string {
	entries, _ := os.ReadDir(dir) // OpenModel has seen it
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

// locate returns the directory of a path: the path itself, the files of a repository in a cache, or those of a
// repository that was pulled, with its name. What is on disk under the path comes first.
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

// notFetched says how to get what has the name of a repository and is not there.
func notFetched(path string) string {
	r, err := hub.ParseRepo(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("; if it is a repository on a hub, run `latentbeam pull %s` first", r)
}

// OpenComponents puts a model together from a path for each component, such as {"text_encoder":
// "models/t5-v1_1-xxl"}: a directory as the hubs have them, or a safetensors file, index or GGUF, whose config.json
// may lie beside it.
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

// Replace takes components of the model from other paths, as OpenComponents has them. Where one has no config.json, that of the model
// holds; all else stays the model's. The model lies on disk.
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
	m.files, m.named = over{files, m.files}, named
	maps.Copy(m.dirs, dirs)
	return nil
}

// over is the files of a model some of whose components lie elsewhere.
type over struct {
	mounts
	base fs.FS
}

// Open opens a file of a component that lies elsewhere, its config.json from the model where it has none, and any other file from
// the model.
func (o over) Open(name string) (fs.File, error) {
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

// mount returns the files of components, their directories, and the weights that are named as files.
func mount(paths map[string]string) (files mounts, dirs, named map[string]string, err error) {
	files, dirs, named = mounts{}, map[string]string{}, map[string]string{}
	for c, p := range paths {
		p, repo := locate(p)
		if part := filepath.Join(p, c); isDir(part) && (repo != "" || !exists(filepath.Join(p, "config.json"))) { // of a whole model
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
		if dir, ok := dirs[component]; ok { // some hubs keep it in a directory of its own
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
	m.Index.completePlan(m)
	return m, nil
}

// PlanPipeline is the class of whole models of Open-Sora-Plan, and Plan12 and Plan13 are its versions. The project
// publishes no model_index.json: the class of the denoiser says what the model is.
const (
	PlanPipeline   = "OpenSoraPlanPipeline"
	Plan12, Plan13 = "1.2", "1.3"
)

// planVersions are the versions by the class of transformer/config.json.
var planVersions = map[string]string{"OpenSoraT2V": Plan12, "OpenSoraT2V_v1_3": Plan13}

// completePlan fills in what a model of Open-Sora-Plan is.
func (i *Index) completePlan(m *Model) {
	if i.ClassName != "" && i.ClassName != PlanPipeline {
		return
	}
	var denoiser struct {
		ClassName ClassName `json:"_class_name"`
	}
	if m.ReadJSON("transformer/config.json", &denoiser) != nil {
		return // who needs it says so
	}
	if version := planVersions[string(denoiser.ClassName)]; version != "" {
		i.ClassName, i.Version = PlanPipeline, version
	}
}

// maxFile bounds the bytes of a file of a model that is read as a whole: the largest are tokenizers, of 40 MB.
const maxFile = 256 << 20

// ReadFile reads a file of the model, such as "text_encoder/spiece.model".
func (m *Model) ReadFile(name string) ([]byte, error) {
	data, err := system.ReadFileOf(m.files, name, maxFile)
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

// Config returns the config.json of a component, or what Guess makes of its tensors where it has none.
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

// Lack notes that something of the model is not there and was done without, where PlanOnly allows it: err says that it does not exist.
func (m *Model) Lack(what string, err error) bool {
	if !m.PlanOnly || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	m.lacks = append(m.lacks, what)
	return true
}

// Lacks names what was done without.
func (m *Model) Lacks() []string { return m.lacks }

// where is what a message calls a component: its directory, or its name in the binary.
func (m *Model) where(component string) string {
	if dir, ok := m.dirs[component]; ok {
		return fmt.Sprintf("%s, %s", component, dir)
	}
	return m.Name + "/" + component
}

// Weights opens the safetensors file of a component or its shards, or its GGUF, memory-mapped where they lie on disk. The
// names that hubs use are tried. Pickles are refused. Tensors with the names of other code get those that they have here, as
// `latentbeam convert` writes them.
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

// open opens the weights of a component as they are.
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
