package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of the program. The provenance columns of every table contain it.
const release = "0.1.0"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit it was built from and the platform",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "latentbeam", versionText())
			return err
		},
	}
}

// versionText returns the version, the commit and the platform.
func versionText() string {
	return fmt.Sprintf("%s%s %s %s/%s", release, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit returns the commit of the build in parentheses, or "" if the build has none.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return " (" + s.Value[:12] + ")"
		}
	}
	return ""
}
