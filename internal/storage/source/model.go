package source

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// leftOut are the suffixes of files that are not copied with a model: pickles, and formats of other programs.
var leftOut = []string{".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack", ".onnx", ".ot", ".mp4", ".gif", ".png",
	".jpg", ".webp"}

// pickles are the suffixes that `latentbeam convert` reads.
var pickles = []string{".bin", ".pt", ".pth", ".ckpt", ".pkl"}

// models are the copies that this process uses. They stay until it exits, because weights are mapped into its memory.
var models struct {
	sync.Mutex
	held map[string]copied // by directory
}

// Model returns a local directory with the model at a location. Its name is the same. Directories in beside are copied too, if
// they exist. All processes of the host share a copy.
func Model(ctx context.Context, at string, beside ...string) (string, error) {
	if !IsAddress(at) {
		return at, nil
	}
	p, err := parse(ctx, strings.TrimSuffix(at, "/"), config.BucketSchemes)
	if err != nil {
		return "", err
	}
	e := cachedCopy{server: p.server, kind: kindModels, address: p.String()}
	name := base(p.key)
	if p.key == "" {
		name = base(p.root)
	}
	if err := e.add(ctx, p.key, name); err != nil {
		return "", err
	}
	if len(e.items) == 0 {
		return "", noModel(ctx, p)
	}
	for _, other := range beside {
		if other != name && p.key != "" {
			if err := e.add(ctx, path.Join(path.Dir(p.key), other), other); err != nil {
				return "", err
			}
		}
	}
	c, err := e.obtain(ctx)
	if err != nil {
		return "", err
	}
	retainEntry(c)
	return c.path(name), nil
}

// retainEntry keeps an entry until the process exits.
func retainEntry(c copied) {
	models.Lock()
	defer models.Unlock()
	if _, known := models.held[c.dir]; known {
		c.release()
		return
	}
	if models.held == nil {
		models.held = map[string]copied{}
	}
	models.held[c.dir] = c
}

// noModel returns an error that says why a prefix is not a model.
func noModel(ctx context.Context, p parsed) error {
	if _, err := p.server.Find(ctx, p.key); err == nil && p.key != "" {
		return fault.Usage(fmt.Errorf("%s is one file; give the prefix of the directory that it is in", p))
	} else if p.key != "" && fault.ExitCode(err) == fault.ExitTryAgain {
		return err
	}
	return fault.Usage(fmt.Errorf("%s: there are no files of a model below this prefix; check the address", p))
}

// add adds the objects below a key, as files below a directory of the entry.
func (e *cachedCopy) add(ctx context.Context, key, directory string) error {
	prefix := ""
	if key != "" {
		prefix = key + "/"
	}
	weights, pickled, quantised := map[string]bool{}, map[string]string{}, []item(nil) // by directory
	for o, err := range e.server.Objects(ctx, prefix, false) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(o.Key, prefix)
		ext := strings.ToLower(path.Ext(name))
		if ext == ".safetensors" {
			weights[path.Dir(name)] = true
		}
		if slices.Contains(pickles, ext) {
			pickled[path.Dir(name)] = name
		}
		if name == "" || strings.HasSuffix(name, "/") || hidden(name) || slices.Contains(leftOut, ext) {
			continue
		}
		if err := store.CheckName(name); err != nil {
			return fault.Usage(fmt.Errorf("model %s: %w", e.address, err))
		}
		one := item{directory + "/" + name, o}
		if ext == ".gguf" {
			quantised = append(quantised, one)
			continue
		}
		e.items = append(e.items, one)
	}
	dirOf := func(i item) string { return path.Dir(strings.TrimPrefix(i.name, directory+"/")) }
	quantised = slices.DeleteFunc(quantised, func(i item) bool { return weights[dirOf(i)] }) // not needed beside safetensors
	for _, i := range quantised {
		weights[dirOf(i)] = true
	}
	e.items = append(e.items, quantised...)
	for dir, name := range pickled {
		if !weights[dir] {
			slog.Warn("weights are left out: a pickle is no data; `latentbeam convert` makes safetensors of it", "file", name,
				"model", e.address)
		}
	}
	return nil
}

// hidden reports whether an element of a name starts with a dot, such as .git/config.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}
