// Package models has the verbs about files of models: pull, inspect and convert.
package models

import "github.com/spf13/cobra"

// Commands returns the verbs of the program of a version.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{convertCommand(), inspectCommand(), pullCommand(version)}
}
