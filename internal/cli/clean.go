package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"latentbeam/internal/results/audit"

	"latentbeam/internal/config"
	"latentbeam/schemas/fault"
)

func cleanCommand() *cobra.Command {
	var apply, asJSON bool
	var olderThan string
	var outputs retention
	cmd := &cobra.Command{
		Use:   "clean DIR...",
		Short: "Remove what a finished output no longer needs, or whole old outputs",
		Long: "Remove what a finished output no longer needs: videos and records of rows that are no longer in the input, and\n" +
			"temporary files of killed runs. Without --apply it only lists what it would remove. Files that latentbeam did not\n" +
			"write, and files below names/, stay.\n\n" +
			"With --keep-outputs or --outputs-older-than it removes whole outputs. DIR... are then the outputs to choose\n" +
			"from, such as out/* of a scheduled job. Outputs that are not finished, and files that latentbeam did not write,\n" +
			"stay.\n\n" +
			"Exit codes: 0; 2 when the output is not finished or its tables are damaged; 75 when a run is at work there.",
		Example: "  latentbeam clean out/shapes --apply\n  latentbeam clean out/* --keep-outputs 14 --apply",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if outputs.isSet(cmd) {
				return retire(cmd, args, outputs, apply)
			}
			if len(args) > 1 {
				return fault.Usage(errors.New("several outputs need --keep-outputs or --outputs-older-than; else name one output"))
			}
			age, err := parseAge(olderThan)
			if err != nil {
				return fault.Usage(fmt.Errorf("--older-than %w", err))
			}
			s, err := Existing(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			c, err := audit.Clean(cmd.Context(), s, audit.CleanOptions{Apply: apply, OlderThan: age, Now: time.Now()})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), c)
			}
			printCleaned(cmd, args[0], c)
			return nil
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "remove it; without this flag nothing is removed")
	cmd.Flags().StringVar(&olderThan, "older-than", "",
		"remove only files older than this, such as 36h or 30d; rows without a video have no age and stay")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON")
	cmd.Flags().IntVar(&outputs.keep, "keep-outputs", 0,
		"keep this many of the given outputs, the last finished ones, and remove the others")
	cmd.Flags().StringVar(&outputs.older, "outputs-older-than", "",
		"remove the given outputs that finished longer ago than this, such as 30d")
	return cmd
}

// parseAge parses an age such as 36h or 30d; "" is 0.
func parseAge(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(text)
	if days, found := strings.CutSuffix(text, "d"); found {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		age = time.Duration(n * float64(24*time.Hour))
	}
	if err != nil || age <= 0 {
		return 0, fmt.Errorf("%s: write a time with its unit, such as 36h or 30d", text)
	}
	return age, nil
}

// printCleaned prints what was removed or, without --apply, what would be removed.
func printCleaned(cmd *cobra.Command, output string, c audit.Cleaned) {
	out := cmd.OutOrStdout()
	for i, f := range c.Listed {
		if i == shownFindings {
			fmt.Fprintf(out, "and %d more\n", c.Files-int64(i))
			break
		}
		fmt.Fprintf(out, "%s: %s\n", f.File, f.Why)
	}
	verb := "would be removed"
	if c.Applied {
		verb = "are removed"
	}
	fmt.Fprintf(out, "%d files (%s) and %d records of the ledger %s; the tables name %d rows, which stay\n",
		c.Files, config.ByteSize(c.Bytes), c.Records, verb, c.Rows)
	if c.Partial > 0 {
		fmt.Fprintf(out, "%d temporary files of killed runs are removed\n", c.Partial)
	}
	if c.TooYoung > 0 {
		fmt.Fprintf(out, "%d files stay because they are younger than --older-than\n", c.TooYoung)
	}
	if !c.Applied && c.Files+c.Records > 0 {
		fmt.Fprintf(out, "nothing was removed yet: `latentbeam clean %s --apply` does it\n", output)
	}
}
