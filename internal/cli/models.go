package cli

import "github.com/spf13/cobra"

// modelCommands returns the verbs about models. version is sent to the hub.
func modelCommands(version string) []*cobra.Command {
	return []*cobra.Command{convertCommand(), inspectCommand(), pullCommand(version)}
}
