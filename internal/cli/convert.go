package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"latentbeam/stages/weights/checkpoint"

	"latentbeam/internal/config"
	"latentbeam/internal/system"
	"latentbeam/schemas/fault"
	"latentbeam/stages/catalog"
)

func convertCommand() *cobra.Command {
	var o checkpoint.Options
	shard := config.ByteSize(checkpoint.DefaultShard)
	cmd := &cobra.Command{
		Use:   "convert IN [OUT]",
		Short: "Rewrite a PyTorch checkpoint (.pth, .pt, .bin) as safetensors, without running any code in it",
		Long: "IN is a checkpoint, the index of its shards, or a directory with one of them. OUT is a file or a directory;\n" +
			"without OUT the safetensors file is written beside IN. Memory does not grow with the checkpoint.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.MaxShard, o.Names = int64(shard), catalog.Names
			out := ""
			if len(args) == 2 {
				out = args[1]
			}
			r, err := checkpoint.Convert(args[0], out, o)
			if errors.Is(err, syscall.ENOSPC) {
				return fault.TryAgain(err)
			}
			if err != nil {
				return fault.Usage(err)
			}
			return showConversion(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().StringVar(&o.Key, "key", "", "state dict to convert if the file has several, such as model")
	cmd.Flags().StringVar(&o.Type, "dtype", "", "round floating-point tensors to f32, bf16 or f16")
	cmd.Flags().Var(&shard, "max-shard-size", "maximum size of an output file; a larger checkpoint becomes several shards with an index")
	return cmd
}

// showConversion prints what was read, written and left out, and the name of the model.
func showConversion(w io.Writer, r *checkpoint.Conversion) error {
	fmt.Fprintf(w, "read   %s: %s, %s, %d tensors\n", r.From.File, r.From.Format, config.ByteSize(r.From.Size),
		len(r.From.Tensors))
	if r.From.Key != "" {
		fmt.Fprintf(w, "took   %q of what it holds\n", r.From.Key)
	}
	if n := len(r.From.Skipped); n > 0 {
		fmt.Fprintf(w, "left   %s\n", strings.Join(firstOf(r.From.Skipped, maxShown), ", "))
	}
	if r.Renamed {
		fmt.Fprintln(w, "named  the tensors as here; the original code has other names for them")
	}
	for _, file := range r.Files {
		fmt.Fprintf(w, "wrote  %s\n", file)
	}
	found, _, err := recognize(r.From, filepath.Dir(r.Files[len(r.Files)-1]))
	if err == nil && found.Component != "" {
		fmt.Fprintf(w, "model  %s\n", found.Name)
	}
	return nil
}

// maxShown limits how many items a list in a message shows.
const maxShown = 20

// maxConfig is the size limit of a model's configuration files, in bytes.
const maxConfig = 16 << 20

// readConfig returns the config.json of a directory, or nil if there is none.
func readConfig(dir string) ([]byte, error) {
	data, err := system.ReadRegular(filepath.Join(dir, "config.json"), maxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
