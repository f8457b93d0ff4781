package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/stages"
)

// allowExec is the flag that lets programs of a job run. Verbs have it if their job comes from an output or another host.
const allowExec = "allow-exec"

// addAllowExec adds the flag. whose names the source of the job in the help text.
func addAllowExec(cmd *cobra.Command, allowed *bool, whose string) {
	cmd.Flags().BoolVar(allowed, allowExec, false, "run the programs (stage exec) that "+whose+" names; a program can do all that you can")
}

// trusted returns specs. Unless programs are allowed, stages that run a program of the job fail to open.
func trusted(specs []stages.Spec, allowed bool, verb string) []stages.Spec {
	return commands{any: allowed, fix: commandLine(os.Args) + " --" + allowExec}.trusted(specs, verb)
}

// commands are the commands that jobs may run. A command is written as in a job, with one space between its parts. commands
// implements pflag.Value.
type commands struct {
	any  bool
	list []string
	fix  string // command line that allows all; "" if the user of the job cannot change it
}

// anyCommand is the value of a flag that is given without a value.
const anyCommand = "any"

// Set adds a command; anyCommand allows all.
func (c *commands) Set(text string) error {
	if text = strings.Join(strings.Fields(text), " "); text == anyCommand {
		c.any = true
	} else if text != "" {
		c.list = append(c.list, text)
	}
	return nil
}

// String returns the commands, separated by commas.
func (c *commands) String() string { return strings.Join(c.list, ", ") }

// Type returns the name of the value in the help text.
func (c *commands) Type() string { return "command" }

// trusted returns specs. Stages that run a program of the job fail to open unless c allows the program.
func (c commands) trusted(specs []stages.Spec, verb string) []stages.Spec {
	if c.any {
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
				err = c.check(p, verb)
			}
			if err != nil {
				return s, fmt.Errorf("%s: %w", s.Name, err)
			}
			return s.Of(o)
		}
	}
	return out
}

// check returns why a program may not run, or nil if it may.
func (c commands) check(p stages.Program, verb string) error {
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
