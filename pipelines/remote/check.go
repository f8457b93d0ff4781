package remote

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/source"
	"latentbeam/runners"
)

// Check returns an error if workers of the runner could not do the job. dir is the base directory of relative paths.
func Check(cfg *config.Config, dir string, r runners.Runner) error {
	if !r.Distributed {
		return nil
	}
	if len(cfg.Resources.Hosts) > 0 {
		return cfg.Errorf("resources.hosts", "runner %s gives rows to hosts by itself", r.Name).
			WithFix("remove resources.hosts, or use runner: local, whose sets span hosts")
	}
	if r.Apart {
		if err := checkApart(cfg, r); err != nil {
			return err
		}
	}
	kind, paths := cfg.Input.Source()
	if (kind == config.EmbeddingInput || kind == config.LatentInput) && slices.Contains(paths, source.Stdin) {
		return cfg.Errorf("input."+kind, "workers of runner %s read tensors where they are, and standard input is of this process alone",
			r.Name).WithFix("write the table into a file that every host sees")
	}
	for i, s := range cfg.Stages {
		options, err := json.Marshal(s.Options)
		if err != nil {
			return err
		}
		if path := relativePath(options, dir); path != "" {
			return cfg.Errorf(fmt.Sprintf("stages.%d", i), "%s: %q is relative to %s, and workers of runner %s have directories of "+
				"their own", s.Name, path, dir, r.Name).WithFix("give an absolute path, which every host has")
		}
	}
	return nil
}

// checkApart returns an error if the job uses paths that workers on other machines cannot read.
func checkApart(cfg *config.Config, r runners.Runner) error {
	if !config.IsAddress(cfg.Output.Path) {
		return cfg.Errorf("output.path", "workers of runner %s cannot write to %s: they see no directory of this machine", r.Name,
			cfg.Output.Path).WithFix("write to a bucket: gs://BUCKET/PREFIX")
	}
	relative := func(path string) bool {
		return path != "" && path != "none" && path != "tiny" && !config.IsAddress(path) && !filepath.IsAbs(path)
	}
	refuse := func(key, path string) error {
		return cfg.Errorf(key, "%q is relative to a directory of this machine, which workers of runner %s do not see", path, r.Name).
			WithFix("give an address (gs://, s3://), or an absolute path that the image has, too")
	}
	kind, paths := cfg.Input.Source()
	for _, path := range paths {
		if kind != config.PromptInput && relative(path) { // only the submitter reads tables of prompts
			return refuse("input."+kind, path)
		}
	}
	m := cfg.Model
	for key, path := range map[string]string{"": m.Path, ".text_encoder": m.TextEncoder, ".transformer": m.Transformer, ".vae": m.VAE} {
		for _, one := range strings.Split(path, ";") {
			if _, err := os.Stat(one); err == nil && relative(one) { // otherwise it is the name of a model on a hub
				return refuse("model"+key, one)
			}
		}
	}
	return nil
}

// relativePath returns a string in a JSON value that names a file relative to dir; "": none.
func relativePath(value []byte, dir string) (found string) {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return ""
	}
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			if !strings.Contains(v, "/") || filepath.IsAbs(v) || strings.Contains(v, "://") {
				return
			}
			if _, err := os.Stat(filepath.Join(dir, v)); err == nil {
				found = v
			}
		case []any:
			for _, one := range v {
				visit(one)
			}
		case map[string]any:
			for _, one := range v {
				visit(one)
			}
		}
	}
	visit(v)
	return found
}
