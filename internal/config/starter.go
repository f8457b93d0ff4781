package config

import _ "embed"

//go:embed starter.yaml
var starter string

// Default is the text of a commented file to start from, as `latentbeam init` writes it. It is a valid file.
func Default() string { return starter }
