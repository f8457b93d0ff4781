package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/schemas/fault"
)

// starterPrompts is the table that the starter configuration reads.
const starterPrompts = `id,prompt
red-circle,a red circle moves to the right on a black background
blue-square,a blue square goes up
green-triangle,the green triangle stays still on a white background
`

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented job and a small prompt table to start from (default job.yaml, prompts.csv)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "job.yaml"
			if len(args) == 1 {
				file = args[0]
			}
			if err := create(file, config.Default()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", file)
			switch err := create("prompts.csv", starterPrompts); {
			case errors.Is(err, os.ErrExist):
			case err != nil:
				return err
			default:
				fmt.Fprintln(cmd.OutOrStdout(), "wrote prompts.csv")
			}
			fmt.Fprintf(cmd.OutOrStdout(), "now run: latentbeam run %s\n", file)
			return nil
		},
	}
}

// create writes a new file; one that is there already is left alone.
func create(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fault.Usage(fmt.Errorf("%w: give another name, or remove it", err))
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
