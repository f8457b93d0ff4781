package config

import (
	"path/filepath"
	"strings"
)

// RelativeTo makes the relative paths of the configuration relative to dir, so that they do not depend on the current directory. It does
// not change options of stages, because only the stage knows which options are paths.
func (c *Config) RelativeTo(dir string) {
	for _, path := range []*string{&c.Model.TextEncoder, &c.Model.Transformer, &c.Model.Transformer2, &c.Model.ImageEncoder,
		&c.Model.VAE, &c.Output.Path,
		&c.Resources.TokenFile, &c.Defaults.Reference} {
		*path = Absolute(dir, *path)
	}
	if name := c.Model.Path; name != "tiny" && name != "none" {
		c.Model.Path = Absolute(dir, name)
	}
	for _, list := range []StringList{c.Input.Prompts, c.Input.Media, c.Input.Videos, c.Input.Embeddings, c.Input.Latents} {
		for i := range list {
			list[i] = Absolute(dir, list[i])
		}
	}
}

// Absolute joins dir with each relative path in paths, which are separated by ";". Addresses, "" and "none" are
// returned unchanged.
func Absolute(dir, paths string) string {
	if paths == "" || paths == "none" {
		return paths
	}
	all := strings.Split(paths, ";")
	for i, p := range all {
		if p != "" && !filepath.IsAbs(p) && !strings.Contains(p, "://") {
			all[i] = filepath.Join(dir, p)
		}
	}
	return strings.Join(all, ";")
}
