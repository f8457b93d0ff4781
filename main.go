// Package latentbeam is the whole program as a function. A program of your own calls Run or Main with its own stages, denoisers,
// samplers, exports and storage services. It then has all verbs of the command line, and jobs can use its additions.
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

// Extra is what a program adds to latentbeam. Names must not be in use.
type Extra struct {
	Stages    []stages.Spec    // stages that the YAML can list by name
	Denoisers []dit.Family     // denoisers that the stage denoise finds by a model's config.json
	Solvers   []sampler.Solver // samplers for the option sampler of denoise

	Exports []schemas.ExportFormat // formats for `latentbeam export --to`
	Schemes []objects.Scheme       // schemes for addresses of outputs, inputs and models, such as az://container/prefix
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

// Main calls Run with additional stages.
func Main(extra ...stages.Spec) int { return Run(Extra{Stages: extra}) }
