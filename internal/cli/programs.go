package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// allowExec is the flag of the verbs that take jobs from elsewhere.
const allowExec = "allow-exec"

// addAllowExec adds the flag; what says whose programs it allows.
func addAllowExec(cmd *cobra.Command, allowed *bool, whose string) {
	cmd.Flags().BoolVar(allowed, allowExec, false, "run the programs (stage exec) that "+whose+" names; a program can do all that you can")
}

// trusted returns the stages with those that run programs of a job refused, unless they are allowed.
func trusted(specs []stages.Spec, allowed bool, verb string) []stages.Spec {
	if allowed {
		return specs
	}
	out := make([]stages.Spec, len(specs))
	for i, s := range specs {
		if s.Program {
			s.Of = func(stages.Options) (stages.Spec, error) {
				return s, fault.Usage(fmt.Errorf("%s: the job runs a program here, and %s was not allowed to: if you trust the job, "+
					"start it with --%s", s.Name, verb, allowExec))
			}
		}
		out[i] = s
	}
	return out
}
