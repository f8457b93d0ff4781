// Package latentbeam is the whole program as a function: a program of your own calls Run or Main with stages, denoisers, samplers,
// exports and storage services of its own, and has every verb of the command line with these in the catalog.
package latentbeam

import (
	"fmt"
	"os"

	"latentbeam/internal/cli"
	"latentbeam/internal/storage/store/open"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
)

// Extra is what a program adds to this one. Names must be new.
type Extra struct {
	Stages    []stages.Spec    // which the YAML lists by name
	Denoisers []dit.Family     // which the stage denoise finds by a model's config.json
	Solvers   []sampler.Solver // which the option sampler of denoise names

	Exports []schemas.ExportFormat // which `latentbeam export --to` names
	Schemes []objects.Scheme       // of addresses of outputs, inputs and models, such as az://container/prefix
}

// Run runs the command line of this process, and returns the exit code: 0 done, 1 done but rows failed, 2 wrong
// configuration or input, 3 stopped, 75 try again, 130 interrupted. A process calls it once.
func Run(x Extra) int {
	if err := catalog.Add(x.Denoisers, x.Solvers); err != nil {
		fmt.Fprintln(os.Stderr, "latentbeam:", err)
		return fault.ExitUsage
	}
	if err := cli.AddExports(x.Exports); err != nil {
		fmt.Fprintln(os.Stderr, "latentbeam:", err)
		return fault.ExitUsage
	}
	if err := open.Add(x.Schemes); err != nil {
		fmt.Fprintln(os.Stderr, "latentbeam:", err)
		return fault.ExitUsage
	}
	return cli.Main(append(catalog.All(), x.Stages...))
}

// Main is Run with stages alone.
func Main(extra ...stages.Spec) int { return Run(Extra{Stages: extra}) }
