// Package latentbeam embeds the built-in model, so that one binary does a whole job with nothing else
// at hand. It stands at the root because embedding reaches only downwards.
package latentbeam

import (
	"embed"
	"io/fs"
)

//go:embed testdata/tiny/model_index.json
//go:embed testdata/tiny/text_encoder testdata/tiny/transformer testdata/tiny/vae
var files embed.FS

// Tiny returns the files of the built-in model in the published layout.
func Tiny() fs.FS {
	tiny, err := fs.Sub(files, "testdata/tiny")
	if err != nil {
		panic(err) // the path is a constant of this file
	}
	return tiny
}
