package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"latentbeam/stages/weights/checkpoint"
	"latentbeam/stages/weights/gguf"
	"latentbeam/stages/weights/lora"

	"latentbeam/internal/config"
	"latentbeam/internal/system"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages/catalog"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
	"latentbeam/testdata/tiny"
)

func inspectCommand() *cobra.Command {
	var key string
	var list, asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Say what is in a checkpoint, which model it is, and what is missing or unexpected; or which marks a video carries",
		Long: "PATH is a safetensors file, a GGUF, a PyTorch checkpoint (no code in it is run), the index of shards, a\n" +
			"directory with one of them, or a whole model. The exit code is 2 if a tensor does not fit.\n\n" +
			"For an mp4, png or jpeg it lists the marks of synthetic media (docs/marking.md) and says whether a signature holds for\n" +
			"the file. It does not check who signed. The exit code is 1 if a signature does not hold.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if _, err := os.Stat(args[0]); err != nil && args[0] == "tiny" { // the built-in model
				dir, remove, err := unpackTiny()
				if err != nil {
					return err
				}
				defer remove()
				args, out = []string{dir}, &pathReplacer{out, filepath.Dir(dir) + "/", ""}
			}
			facts := inspectFacts{Schema: jsonSchema, Path: args[0]}
			if !asJSON {
				return facts.inspect(out, args[0], key, list)
			}
			var text strings.Builder
			err := facts.inspect(&text, args[0], key, list)
			facts.Text = text.String()
			return errors.Join(printJSON(out, facts), err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON (docs/json.md)")
	cmd.Flags().StringVar(&key, "key", "", "state dict to inspect if the file has several, such as model")
	cmd.Flags().BoolVar(&list, "tensors", false, "list every tensor")
	return cmd
}

// inspect prints what is at path. The error says what does not fit.
func (f *inspectFacts) inspect(out io.Writer, path, key string, list bool) error {
	found, media, err := inspectMarks(out, path)
	if f.Marks = found; media || err != nil {
		return err
	}
	misfits := 0
	if err := inspectModel(out, path); err != nil {
		return fault.Usage(err)
	}
	for _, part := range parts(path) {
		n, err := f.inspectPart(out, part, key, list)
		if err != nil {
			return fault.Usage(err)
		}
		misfits += n
	}
	if misfits > 0 {
		return fault.Usage(fmt.Errorf("inspect %s: %d tensors do not fit", path, misfits))
	}
	return nil
}

// parts returns the directories of a model's components, or path itself if it has none.
func parts(path string) []string {
	var found []string
	for _, name := range []string{"text_encoder", "transformer", "transformer_2", "image_encoder", "vae"} {
		dir := filepath.Join(path, name)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			found = append(found, dir)
		}
	}
	if found == nil {
		return []string{path}
	}
	return found
}

// inspectPart prints one checkpoint and returns how many tensors do not fit.
func (f *inspectFacts) inspectPart(w io.Writer, path, key string, list bool) (misfits int, err error) {
	c, err := checkpoint.Open(path, key)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	fmt.Fprintln(w, c.File)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	describeTensors(out, c)
	found, original, err := recognize(c, filepath.Dir(c.File))
	if err != nil {
		return 0, errors.Join(out.Flush(), fmt.Errorf("inspect %s: %w", c.File, err))
	}
	describeModel(out, c, found, original)
	f.addCheckpoint(c, found, original, list)
	if list {
		for _, t := range c.Tensors {
			fmt.Fprintf(out, "  %s\t%s %v\n", t.Name, t.DType, t.Shape)
		}
	}
	return len(found.Misfits), out.Flush()
}

// recognize finds the model of a checkpoint from its tensors and the config.json in dir, if there is one. original reports whether
// the tensors have the names of the model's original code.
func recognize(c *checkpoint.Checkpoint, dir string) (found catalog.Finding, original bool, err error) {
	data, err := readConfig(dir)
	if err != nil {
		return found, false, err
	}
	infos := infosOf(c)
	names := catalog.Names(infos)
	for i, info := range infos {
		if name, ok := names[info.Name]; ok {
			original = original || name != info.Name
			infos[i].Name = name
		}
	}
	found, err = catalog.Recognize(infos, data)
	return found, original, err
}

func infosOf(c *checkpoint.Checkpoint) []safetensors.TensorInfo {
	infos := make([]safetensors.TensorInfo, len(c.Tensors))
	for i, t := range c.Tensors {
		infos[i] = t.TensorInfo
	}
	return infos
}

// describeTensors prints the format, types and sizes of a checkpoint.
func describeTensors(w io.Writer, c *checkpoint.Checkpoint) {
	count, parameters := map[string]int{}, 0
	for _, t := range c.Tensors {
		stored := t.Stored
		if stored != t.DType {
			stored += ", read as " + t.DType
		}
		count[stored]++
		parameters += kernels.Elements(t.Shape)
	}
	var types []string
	for t, n := range count {
		types = append(types, fmt.Sprintf("%d %s", n, t))
	}
	slices.Sort(types)
	fmt.Fprintf(w, "  format\t%s, %s\n", c.Format, config.ByteSize(c.Size))
	if c.Key != "" {
		fmt.Fprintf(w, "  taken\t%q of what it holds\n", c.Key)
	}
	for _, s := range firstOf(c.Skipped, maxShown) {
		fmt.Fprintf(w, "  left out\t%s\n", s)
	}
	fmt.Fprintf(w, "  tensors\t%s\n", strings.Join(types, "; "))
	fmt.Fprintf(w, "  elements\t%s\n", withCommas(parameters))
}

// describeModel prints which model a checkpoint is and which tensors do not fit.
func describeModel(w io.Writer, c *checkpoint.Checkpoint, f catalog.Finding, original bool) {
	if original {
		fmt.Fprintln(w, "  layout\tthat of the model's original code, whose names a job takes too")
	}
	if f.Component == "" {
		fmt.Fprintf(w, "  %s\n", describeAdapter(c))
		return
	}
	from := "by config.json"
	if f.Guessed {
		from = "by its tensors, there is no config.json"
	}
	fmt.Fprintf(w, "  model\t%s (%s; %s)\n", f.Name, f.Component, from)
	if c.Pickle() {
		fmt.Fprintf(w, "  to use it\tlatentbeam convert %s\n", c.File)
	} else if weights.CastHelps(f.Misfits) {
		fmt.Fprintf(w, "  to use it\tlatentbeam convert --dtype f32 %s OUT.safetensors\n", c.File)
	}
	if f.Component == "text_encoder" {
		describeTokenizer(w, filepath.Dir(c.File), c.Metadata)
	}
	if len(f.Misfits) == 0 {
		fmt.Fprintf(w, "  complete\tall %d tensors of the model are there\n", f.Wanted)
	}
	kinds := map[string][]weights.Misfit{}
	for _, m := range f.Misfits {
		kinds[m.Kind] = append(kinds[m.Kind], m)
	}
	for _, kind := range []string{"missing", "wrong shape", "wrong type", "unexpected"} {
		var lines []string
		for _, m := range kinds[kind] {
			lines = append(lines, fmt.Sprintf("%q %s", m.Name, m.Detail))
		}
		slices.Sort(lines)
		for _, line := range firstOf(lines, maxListed) {
			fmt.Fprintf(w, "  %s\t%s\n", kind, line)
		}
	}
}

// describeAdapter describes a file that is no known model: it may be a LoRA adapter.
func describeAdapter(c *checkpoint.Checkpoint) string {
	if c.Pickle() {
		return "model\tnone that is known here"
	}
	a, err := lora.Open(c.File)
	if err != nil {
		return "adapter\t" + err.Error()
	}
	defer a.Close()
	facts := a.Describe()
	if facts.Layers == 0 {
		return "model\tnone that is known here"
	}
	return fmt.Sprintf("adapter\tLoRA: %s\n  to use it\tmodel: {path: MODEL, loras: [{path: %s}]}", facts, c.File)
}

// maxListed limits how many tensors are listed for one kind of misfit.
const maxListed = 200

// describeTokenizer prints where the tokenizer of T5 is: beside the weights or inside a GGUF.
func describeTokenizer(w io.Writer, dir string, inside map[string]string) {
	for _, path := range []string{"spiece.model", "../tokenizer/spiece.model", "tokenizer.json", "../tokenizer/tokenizer.json"} {
		if info, err := os.Stat(filepath.Join(dir, path)); err == nil {
			if kind := system.FileKind(info.Mode()); kind != "" {
				path += ", but it is " + kind
			}
			fmt.Fprintf(w, "  tokenizer\t%s\n", path)
			return
		}
	}
	if inside[gguf.Tokenizer] != "" {
		fmt.Fprintln(w, "  tokenizer\tin the GGUF")
		return
	}
	if why := inside[gguf.NoTokenizer]; why != "" {
		fmt.Fprintf(w, "  tokenizer\t%s; neither spiece.model nor tokenizer.json is beside the weights\n", why)
		return
	}
	fmt.Fprintln(w, "  tokenizer\tneither spiece.model nor tokenizer.json is beside the weights")
}

// withCommas formats a number with commas between thousands.
func withCommas(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// pathReplacer is a writer that replaces one path by another name. The path must not be split over two writes.
type pathReplacer struct {
	io.Writer
	old, new string
}

// Write implements io.Writer.
func (r *pathReplacer) Write(b []byte) (int, error) {
	_, err := io.WriteString(r.Writer, strings.ReplaceAll(string(b), r.old, r.new))
	return len(b), err
}

// unpackTiny writes the built-in model to a temporary directory. remove deletes it.
func unpackTiny() (dir string, remove func(), err error) {
	if dir, err = system.TempDir(system.Tiny); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // leftovers are in the system's temporary directory
	if err := os.CopyFS(filepath.Join(dir, "tiny"), tiny.Files()); err != nil {
		remove()
		return "", nil, err
	}
	return filepath.Join(dir, "tiny"), remove, nil
}
