// Package latentbeam is the whole program as a function: a program of your own calls Main with stages of its own
// and has every verb of the command line with these stages in the catalog.
package latentbeam

import (
	"latentbeam/internal/cli"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// Main runs the command line of this process, with extra stages beside those of the catalog, and returns the exit
// code: 0 done, 1 done but rows failed, 2 wrong configuration or input, 3 stopped, 75 try again, 130 interrupted.
// The name of an extra stage must be new.
func Main(extra ...stages.Spec) int {
	return cli.Main(append(catalog.All(), extra...))
}
