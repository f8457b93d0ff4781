package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"latentbeam/internal/system"
	"latentbeam/stages/weights/safetensors"
)

// The file names that hubs use for the weights of a component, in transformers' and diffusers' style. A checkpoint in shards has an
// index with the same name and the suffix ".index.json".
var (
	safetensorsNames = []string{"model.safetensors", "diffusion_pytorch_model.safetensors"}
	pickleNames      = []string{"pytorch_model.bin", "diffusion_pytorch_model.bin"}
)

// pickleSuffixes are the suffixes of PyTorch checkpoints.
var pickleSuffixes = []string{".pth", ".pt", ".bin", ".ckpt"}

// ErrPickle says that weights exist only as PyTorch pickles.
var ErrPickle = errors.New("PyTorch pickles can run code when read and are refused; make safetensors " +
	"of them with `latentbeam convert`")

// GGUF is the suffix of GGUF files.
const GGUF = ".gguf"

// IsPickleName reports whether a file with this name is treated as a PyTorch checkpoint.
func IsPickleName(name string) bool { return slices.Contains(pickleSuffixes, path.Ext(name)) }

// Find returns the name of the weights in directory dir of files: a safetensors file, the index of its shards, or if there is
// neither a GGUF. Its error lists the files that exist, and wraps fs.ErrNotExist or ErrPickle.
func Find(files fs.FS, dir string) (string, error) {
	if name := firstOf(files, dir, safetensorsNames); name != "" {
		return name, nil
	}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return "", fmt.Errorf("the directory is missing: %w", err)
	}
	var names, single, quantised, variants []string
	cause := fs.ErrNotExist
	for _, e := range entries {
		names = append(names, e.Name())
		if safetensors.IsIndex(e.Name()) && slices.Contains(safetensorsNames, safetensors.CutIndex(e.Name())) {
			variants = append(variants, e.Name())
		}
		switch ext := path.Ext(e.Name()); {
		case ext == ".safetensors":
			single = append(single, e.Name())
		case ext == GGUF:
			quantised = append(quantised, e.Name())
		case IsPickleName(e.Name()):
			cause = ErrPickle
		}
	}
	if len(single)+len(variants) == 0 {
		single = quantised
	}
	if len(single) == 1 && !isShard(single[0]) { // some hubs name the file after the model
		return single[0], nil
	}
	if len(variants) == 1 { // such as diffusion_pytorch_model.safetensors.index.fp16.json
		return variants[0], nil
	}
	why := "no " + strings.Join(safetensorsNames, " or ") + " there"
	switch {
	case len(variants) > 1:
		why, cause = "several variants, name one: "+strings.Join(variants, ", "), errSeveral
	case len(quantised) > 0 && allShards(single):
		why = "this is a GGUF in parts: join them with `llama-gguf-split --merge`"
	case allShards(single):
		why = indexMissing(single)
	case len(single) > 1:
		why, cause = "several checkpoints, name one", errSeveral
	}
	if len(names) == 0 {
		return "", fmt.Errorf("the directory is empty: %w", cause)
	}
	return "", fmt.Errorf("%s (it holds %s): %w", why, strings.Join(names[:min(len(names), maxNamed)], ", "), cause)
}

var errSeveral = errors.New("it is not clear which one is meant")

// shardName matches the end of a shard's name: "-00001-of-00003" and a suffix.
var shardName = regexp.MustCompile(`-\d+-of-\d+(\.\w+)$`)

func isShard(name string) bool { return shardName.MatchString(name) }

// allShards reports whether all files are shards.
func allShards(files []string) bool {
	return len(files) > 0 && !slices.ContainsFunc(files, func(name string) bool { return !isShard(name) })
}

// indexMissing describes what is missing beside shards without an index.
func indexMissing(shards []string) string {
	return fmt.Sprintf("these are shards, and %s, which lists the tensors of each shard, is missing beside them",
		shardName.ReplaceAllString(shards[0], "$1")+safetensors.IndexSuffix)
}

// Snapshot returns the directory with the files if dir is a repository in the cache of huggingface_hub (models--OWNER--NAME):
// the directory of the commit in refs/main. Any other path is returned unchanged.
func Snapshot(dir string) string {
	commit, err := system.ReadRegular(filepath.Join(dir, "refs", "main"), maxRef)
	name := strings.TrimSpace(string(commit))
	if err != nil || name == "" || name != filepath.Base(name) {
		return dir
	}
	snapshot := filepath.Join(dir, "snapshots", name)
	if info, err := os.Stat(snapshot); err != nil || !info.IsDir() {
		return dir
	}
	return snapshot
}

// maxRef limits the size of a file that names a commit.
const maxRef = 1 << 10

// maxNamed limits the number of files that an error lists.
const maxNamed = 20

// firstOf returns the first of names that exists in dir, or that has an index there; "" if none does.
func firstOf(files fs.FS, dir string, names []string) string {
	for _, name := range names {
		for _, n := range []string{name, name + safetensors.IndexSuffix} {
			if _, err := fs.Stat(files, path.Join(dir, n)); err == nil {
				return n
			}
		}
	}
	return ""
}

// findAny is Find that also accepts pickles, if there is no safetensors file.
func findAny(files fs.FS) (string, error) {
	name, err := Find(files, ".")
	if !errors.Is(err, ErrPickle) {
		return name, err
	}
	if name := firstOf(files, ".", pickleNames); name != "" {
		return name, nil
	}
	var single []string
	for _, suffix := range pickleSuffixes {
		found, err := fs.Glob(files, "*"+suffix)
		if err != nil {
			return "", err
		}
		single = append(single, found...)
	}
	switch {
	case allShards(single):
		return "", errors.New(indexMissing(single))
	case len(single) != 1:
		return "", fmt.Errorf("it holds several checkpoints, name one: %s", strings.Join(single, ", "))
	}
	return single[0], nil
}

// outputName returns the safetensors name that hubs would use for an input with this name.
func outputName(input string) string {
	name := safetensors.CutIndex(filepath.Base(input))
	name = strings.TrimSuffix(name, path.Ext(name))
	if name == "pytorch_model" {
		name = "model"
	}
	return name + ".safetensors"
}
