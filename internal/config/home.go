package config

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// LocalPath returns a path as the system takes it, of a path as people write it: ~ is the home directory, and file:// names a file
// of this host. Other texts stay as they are, and so does the name of a file that is there.
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
	if _, err := os.Lstat(text); err == nil { // a name is a name first
		return text
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return text
	}
	return filepath.Join(home, text[1:]) + trailingSlash(text)
}

// trailingSlash keeps the mark of a folder.
func trailingSlash(text string) string {
	if len(text) > 2 && strings.HasSuffix(text, "/") {
		return "/"
	}
	return ""
}

// LocalPaths is LocalPath of each of several paths with ";" between them.
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

// localPaths replaces the paths of a job by those that the system takes.
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
