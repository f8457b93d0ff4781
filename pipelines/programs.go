package pipelines

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/stages"
)

// scripts are the extensions by which a word of a command is known as a script.
var scripts = []string{".py", ".sh"}

// aboutPrograms says what a person may not have meant with the programs of the job: a script that is not there, and
// more programs than there are devices to give them batches.
func (j *Job) aboutPrograms() (all []string) {
	if j.elsewhere() || j.local.Size() == 0 { // others compute
		return nil
	}
	for i, s := range j.Config.Stages {
		spec, found := stages.Find(j.Opts.Specs, s.Name)
		if !found || spec.Program == nil {
			continue
		}
		p, err := spec.Program(s.Options.Decode)
		if err != nil {
			continue // the job would not have been opened
		}
		at := fmt.Sprintf("stages.%d", i)
		for _, word := range p.Command[min(1, len(p.Command)):] { // one with a space is a line for a shell
			if _, err := os.Stat(word); os.IsNotExist(err) && !strings.Contains(word, " ") && slices.Contains(scripts, filepath.Ext(word)) {
				here, _ := os.Getwd()
				all = append(all, fmt.Sprintf("%v: there is no file %s in %s, where the program is started",
					j.Config.At(at+".command"), word, here))
			}
		}
		if n := j.engine.Pool.Size(); p.Workers > n {
			all = append(all, fmt.Sprintf("%v: workers is %d, but a device gives batches to one program and the job has %s: "+
				"on the CPU set resources.workers: %[2]d too", j.Config.At(at+".workers"), p.Workers, count(int64(n), "device", "devices")))
		}
	}
	return all
}
