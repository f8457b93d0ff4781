package config

import (
	"path/filepath"
	"strings"
)

// From makes the paths of the configuration independent of the current directory: those that are relative are relative
// to dir. Options of stages stay as they are, see Stage.
func (c *Config) From(dir string) {
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

// Absolute returns a path, or several with ";" between them, relative to dir where it is relative. Addresses, "" and
// "none" stay as they are.
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
