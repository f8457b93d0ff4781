package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/results/export"
	"latentbeam/internal/results/where"
	"latentbeam/internal/watch/progress"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// whereUsage is the help of --where.
const whereUsage = "only rows for which an expression over the table's columns is true: \"aesthetic_quality > 5.5 and selected\" (docs/score.md)"

// AddExports adds formats of `export`.
func AddExports(more []schemas.ExportFormat) error { return export.Add(more) }

func exportCommand() *cobra.Command {
	var o export.Options
	var text, vae, chosen string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export OUTPUT DIR --to FORMAT",
		Short: "Write latents and texts, or videos, in the format of a trainer",
		Long: "Write the latents and text embeddings of a finished output, or its videos (lerobot), in the format of a trainer. DIR must\n" +
			"not exist; it appears when the export is complete. Formats: " + strings.Join(export.Formats(), ", ") + ".\n\n" +
			"Exit codes: 0; 2 when the output or the options do not fit the format; 3 when a row is missing.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if config.IsAddress(args[1]) {
				return fault.Usage(fmt.Errorf("export to %s: give a directory; copy it to a bucket afterwards", args[1]))
			}
			from, err := Existing(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			if text != "" {
				if o.Text, err = Existing(cmd.Context(), text); err != nil {
					return err
				}
				defer o.Text.Close()
			}
			if vae != "" {
				if o.VAE, err = export.ReadStatistics(vae); err != nil {
					return err
				}
			}
			if chosen != "" {
				if o.Where, err = where.Parse(chosen); err != nil {
					return err
				}
			}
			done, err := export.Run(cmd.Context(), from, args[1], o)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), exportFacts{jsonSchema, absoluteOutput(args[1]), o.To, done.Rows, done.Files, done.Bytes, done.NoText})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s in %d files, %d bytes: %s\n", progress.Rows(done.Rows), done.Files, done.Bytes, args[1])
			if done.NoText > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "latentbeam: warning: %d of %d rows have no text embedding: %s\n", done.NoText, done.Rows, done.Fix)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.To, "to", "", "the format: "+strings.Join(export.Formats(), ", "))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was written as JSON (docs/json.md)")
	cmd.Flags().StringVar(&text, "text", "", "output of another job that has the text embeddings; rows are matched by id")
	cmd.Flags().StringVar(&chosen, "where", "", whereUsage)
	cmd.Flags().BoolVar(&o.Watermarked, "watermarked", false, "export also rows whose videos have a watermark according to the reading watermark")
	cmd.Flags().StringVar(&vae, "vae", "", "config.json of the autoencoder, with latents_mean and latents_std")
	return cmd
}
