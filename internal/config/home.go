package config

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// LocalPath replaces ~ by the home directory and file:// by the path of the file on this host. It returns other texts unchanged,
// and also the name of an existing file that begins with ~.
func LocalPath(text string) string {
	if rest, isFile := strings.CutPrefix(text, "file://"); isFile {
		rest = strings.TrimPrefix(rest, "localhost")
		if plain, err := url.PathUnescape(rest); err == nil && strings.HasPrefix(rest, "/") {
			return plain
		}
		return text
	}
	if text != "~" && !strings.HasPrefix(text, "~/") {
		return text
	}
	if _, err := os.Lstat(text); err == nil { // there is a file of this name
		return text
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return text
	}
	return filepath.Join(home, text[1:]) + trailingSlash(text)
}

// trailingSlash returns the slash at the end of text, which filepath.Join removes. It means a folder.
func trailingSlash(text string) string {
	if len(text) > 2 && strings.HasSuffix(text, "/") {
		return "/"
	}
	return ""
}

// LocalPaths applies LocalPath to each of several paths that are separated by ";".
func LocalPaths(text string) string {
	if !strings.Contains(text, "~") && !strings.Contains(text, "file://") {
		return text
	}
	parts := strings.Split(text, ";")
	for i := range parts {
		parts[i] = LocalPath(parts[i])
	}
	return strings.Join(parts, ";")
}

// localPaths applies LocalPath to all paths of the job.
func (c *Config) localPaths() {
	for _, list := range []StringList{c.Input.Prompts, c.Input.Media, c.Input.Videos, c.Input.Embeddings, c.Input.Latents} {
		for i := range list {
			list[i] = LocalPath(list[i])
		}
	}
	m, d := &c.Model, &c.Defaults
	for _, path := range []*string{&m.Path, &m.TextEncoder, &m.Transformer, &m.Transformer2, &m.ImageEncoder, &m.VAE, &c.Output.Path,
		&c.Resources.TokenFile, &d.Noise} {
		*path = LocalPath(*path)
	}
	d.Reference = LocalPaths(d.Reference)
	for i := range m.Loras {
		m.Loras[i].Path = LocalPath(m.Loras[i].Path)
	}
}
