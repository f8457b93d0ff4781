package forecast

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/stages"
)

// scripts are the extensions of words in a command that count as scripts.
var scripts = []string{".py", ".sh"}

// DoubtfulPrograms returns warnings about the programs of the job: a missing script, and
// more workers of a program than devices.
func DoubtfulPrograms(cfg *config.Config, specs []stages.Spec, devices int) (all []string) {
	for i, s := range cfg.Stages {
		spec, found := stages.Find(specs, s.Name)
		if !found || spec.Program == nil {
			continue
		}
		p, err := spec.Program(s.Options.Decode)
		if err != nil {
			continue // opening the job has reported the error
		}
		at := fmt.Sprintf("stages.%d", i)
		for _, word := range p.Command[min(1, len(p.Command)):] { // a word with a space is a command line for a shell
			if _, err := os.Stat(word); os.IsNotExist(err) && !strings.Contains(word, " ") && slices.Contains(scripts, filepath.Ext(word)) {
				here, _ := os.Getwd()
				all = append(all, fmt.Sprintf("%v: there is no file %s in %s, where the program is started",
					cfg.At(at+".command"), word, here))
			}
		}
		if n := devices; p.Workers > n {
			all = append(all, fmt.Sprintf("%v: workers is %d, but a device gives batches to one program and the job has %s: "+
				"on the CPU set resources.workers: %[2]d too", cfg.At(at+".workers"), p.Workers, count(int64(n), "device", "devices")))
		}
	}
	return all
}
