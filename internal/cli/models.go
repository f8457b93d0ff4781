package cli

import "github.com/spf13/cobra"

// modelCommands returns the verbs of the program of a version.
func modelCommands(version string) []*cobra.Command {
	return []*cobra.Command{convertCommand(), inspectCommand(), pullCommand(version)}
}
