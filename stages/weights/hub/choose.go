package hub

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"latentbeam/schemas/fault"
	"latentbeam/stages/weights/checkpoint"
)

// RepoFile is a file of a repository.
type RepoFile struct {
	Path string // with slashes
	Size int64
	ID   string // name of its blob: SHA-256 of a large file, git's SHA-1 of a small one
}

// indexName is the file that lists the components of a whole model.
const indexName = "model_index.json"

// components are the directories of a whole model that jobs read.
var components = []string{"text_encoder", "tokenizer", "transformer", "transformer_2", "vae", "scheduler", "image_encoder",
	"image_processor"}

// smallSuffixes are the suffixes of files beside weights: configurations, indices and vocabularies.
var smallSuffixes = []string{".json", ".model", ".txt"}

// weightStems are the names that hubs use for the weights of a component, without the suffix.
var weightStems = []string{"model", "diffusion_pytorch_model", "pytorch_model"}

// shardName splits the name of a shard: stem, "-00001-of-00003", suffix.
var shardName = regexp.MustCompile(`^(.*)-\d+-of-\d+(\.\w+)$`)

// choose returns the files that a job needs. If include is given, its patterns choose the weights.
func choose(files []RepoFile, include []string) (chosen []RepoFile, err error) {
	whole := slices.ContainsFunc(files, func(f RepoFile) bool { return f.Path == indexName })
	dirs := map[string][]RepoFile{}
	for _, f := range files {
		if dir := path.Dir(f.Path); dir == "." || slices.Contains(components, dir) {
			dirs[dir] = append(dirs[dir], f)
		}
	}
	for dir, inside := range dirs {
		for _, f := range inside {
			if isSmall(f) {
				chosen = append(chosen, f)
			}
		}
		if include == nil && (dir != "." || !whole) {
			weights, err := chooseWeights(inside)
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, weights...)
		}
	}
	for _, pattern := range include {
		found := false
		for _, f := range files {
			if matches(pattern, f.Path) {
				chosen, found = append(chosen, f), true
			}
		}
		if !found {
			return nil, fault.Usage(fmt.Errorf("no file of the repository is called %q; it holds %s", pattern, listed(files)))
		}
	}
	slices.SortFunc(chosen, func(a, b RepoFile) int { return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Path, b.Path)) })
	return slices.Compact(chosen), nil
}

// matches reports whether a pattern matches a path, or its last element.
func matches(pattern, file string) bool {
	whole, _ := path.Match(pattern, file) // the command line has checked the pattern
	last, _ := path.Match(pattern, path.Base(file))
	return whole || last
}

// isSmall reports whether a file is small and always chosen: a configuration, a vocabulary, a licence or the model card.
func isSmall(f RepoFile) bool {
	name := path.Base(f.Path)
	return slices.Contains(smallSuffixes, path.Ext(name)) && !isPickleIndex(name) || isLicence(name) || name == cardName
}

// isPickleIndex reports whether name is the name of an index of pickles.
func isPickleIndex(name string) bool {
	inner, isIndex := strings.CutSuffix(name, ".index.json")
	return isIndex && checkpoint.IsPickleName(inner)
}

// cardName is the model card. Its front matter names the licence.
const cardName = "README.md"

func isLicence(name string) bool {
	upper := strings.ToUpper(name)
	return strings.HasPrefix(upper, "LICENSE") || strings.HasPrefix(upper, "LICENCE")
}

// chooseWeights returns the weights among the files of a directory: safetensors; if there are none, GGUF; if there are none of
// these, pickles.
func chooseWeights(inside []RepoFile) ([]RepoFile, error) {
	for _, fits := range []func(name string) bool{
		func(name string) bool { return path.Ext(name) == ".safetensors" },
		func(name string) bool { return path.Ext(name) == checkpoint.GGUF },
		checkpoint.IsPickleName,
	} {
		groups := map[string][]RepoFile{} // by stem
		for _, f := range inside {
			if name := path.Base(f.Path); fits(name) {
				stem := stemOf(name)
				groups[stem] = append(groups[stem], f)
			}
		}
		if len(groups) == 0 {
			continue
		}
		stem, err := pick(groups, inside)
		if err != nil {
			return nil, err
		}
		return withIndex(withoutDuplicates(groups[stem]), inside), nil
	}
	return nil, nil
}

// stemOf returns the name of a weights file without the suffix and the number of the shard.
func stemOf(name string) string {
	if m := shardName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return strings.TrimSuffix(name, path.Ext(name))
}

// pick returns the name of the checkpoint to use if a directory has several.
func pick(groups map[string][]RepoFile, inside []RepoFile) (string, error) {
	for _, stem := range weightStems {
		if groups[stem] != nil {
			return stem, nil
		}
	}
	var all []RepoFile
	for stem, files := range groups {
		if len(groups) == 1 {
			return stem, nil
		}
		all = append(all, files...)
	}
	return "", fault.Usage(fmt.Errorf("the repository holds %d checkpoints and does not say which is meant: %s; choose with "+
		"--include, such as --include %s", len(groups), listed(all), path.Base(all[0].Path)))
}

// withoutDuplicates removes the shards of a checkpoint that also exists as one file.
func withoutDuplicates(files []RepoFile) []RepoFile {
	for _, f := range files {
		if !shardName.MatchString(path.Base(f.Path)) {
			return []RepoFile{f}
		}
	}
	return files
}

// withIndex adds the index of pickle shards, which is otherwise not chosen.
func withIndex(weights, inside []RepoFile) []RepoFile {
	for _, f := range inside {
		if name := path.Base(f.Path); isPickleIndex(name) && checkpoint.IsPickleName(weights[0].Path) &&
			strings.TrimSuffix(name, ".index.json") == stemOf(path.Base(weights[0].Path))+path.Ext(weights[0].Path) {
			return append(slices.Clone(weights), f)
		}
	}
	return weights
}

// maxListed limits the number of files in a message.
const maxListed = 20

// listed formats the names of files for a message.
func listed(files []RepoFile) string {
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	if n := len(names) - maxListed; n > 0 {
		names = append(names[:maxListed], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}
