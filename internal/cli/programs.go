package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
	return commands{all: allowed, fix: asTyped(os.Args) + " --" + allowExec}.trusted(specs, verb)
}

// commands are those that jobs may run: all, or those listed, as they are written in a job with a space between their
// parts. With String, Set and Type they are the value of a flag.
type commands struct {
	all  bool
	list []string
	fix  string // command that allows them, "" where it is somebody else's
}

// anyCommand is the value of the flag that has none.
const anyCommand = "any"

// Set adds a command.
func (c *commands) Set(text string) error {
	if text = strings.Join(strings.Fields(text), " "); text == anyCommand {
		c.all = true
	} else if text != "" {
		c.list = append(c.list, text)
	}
	return nil
}

// String returns the commands with commas.
func (c *commands) String() string { return strings.Join(c.list, ", ") }

// Type is what the help of a flag calls them.
func (c *commands) Type() string { return "command" }

// trusted returns the stages with those that run programs of a job refused, but for the commands.
func (c commands) trusted(specs []stages.Spec, verb string) []stages.Spec {
	if c.all {
		return specs
	}
	out := slices.Clone(specs)
	for i, s := range specs {
		if s.Program == nil {
			continue
		}
		out[i].Of = func(o stages.Options) (stages.Spec, error) {
			p, err := s.Program(o)
			if err == nil {
				err = c.refused(p, verb)
			}
			if err != nil {
				return s, fmt.Errorf("%s: %w", s.Name, err)
			}
			return s.Of(o)
		}
	}
	return out
}

// refused says why a program may not run, nil: it may.
func (c commands) refused(p stages.Program, verb string) error {
	switch {
	case len(c.list) == 0 && c.fix != "":
		err := stages.Errorf("command", "the job of an output runs a program here, and %s was not allowed to", verb)
		err.Fix = "if you trust who wrote the output: " + c.fix
		return err
	case len(c.list) == 0:
		return fmt.Errorf("the job runs a program here, and %s was not allowed to: if you trust the job, start it with --%s",
			verb, allowExec)
	case !slices.Contains(c.list, strings.Join(p.Command, " ")):
		return fmt.Errorf("the job runs a program that %s was not allowed to: it may run %s; if you trust the job, "+
			"add --%s=%q", verb, strings.Join(c.list, " and "), allowExec, strings.Join(p.Command, " "))
	case len(p.Sets) > 0:
		return fmt.Errorf("%s was allowed to run this command and no more: take %s out of the job, or, if you trust the job, "+
			"start it with --%s alone", verb, strings.Join(p.Sets, " and "), allowExec)
	}
	return nil
}
