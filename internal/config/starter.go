package config

import _ "embed"

//go:embed starter.yaml
var starter string

// Default returns the commented file that `latentbeam init` writes. It is a valid job.
func Default() string { return starter }
