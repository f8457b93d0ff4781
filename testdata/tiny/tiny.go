// Package tiny embeds the built-in model, so that one binary does a whole job without any other file. It lies
// beside its files because embedding reaches only downwards.
package tiny

import (
	"embed"
	"io/fs"
)

//go:embed model_index.json text_encoder transformer vae
var files embed.FS

// Files returns the files of the built-in model in the published layout.
func Files() fs.FS { return files }
