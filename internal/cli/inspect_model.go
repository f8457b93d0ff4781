package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"latentbeam/internal/system"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// inspectModel prints the pipeline of a directory with a model_index.json and how its scheduler samples. It prints nothing for
// other paths, which are not whole models.
func inspectModel(w io.Writer, path string) error {
	var index stages.Index
	data, err := system.ReadRegular(filepath.Join(path, "model_index.json"), maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist), err != nil && !isDir(path):
		m, err := stages.OpenModel(path)
		if err != nil || m.Index.ClassName == "" {
			return nil
		}
		index = m.Index // found from the config.json of the denoiser
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(data, &index); err != nil {
			return fmt.Errorf("inspect %s: model_index.json: %w", path, err)
		}
	}
	fmt.Fprintln(w, path)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if does, err := catalog.Pipeline(string(index.ClassName)); err != nil {
		fmt.Fprintf(out, "  pipeline\t%v\n", err)
	} else {
		fmt.Fprintf(out, "  pipeline\t%s (%s)\n  to use it\tmodel: %s\n", index.ClassName, does, path)
	}
	scheduler, err := system.ReadRegular(filepath.Join(path, "scheduler", "scheduler_config.json"), maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		does, err := catalog.Scheduler(string(index.ClassName), scheduler)
		if err != nil {
			return errors.Join(out.Flush(), fmt.Errorf("inspect %s: %w", path, err))
		}
		if does != "" {
			fmt.Fprintf(out, "  scheduler\t%s\n", does)
		}
	}
	return out.Flush()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
