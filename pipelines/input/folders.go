package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/media"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/read"
)

// notes are what a person should know of how the input was read. Each is said once.
type notes struct {
	lines []string
	mixed string // a folder of frames with other media, which earlier releases took for one clip of its frames; "": there is none
}

func (n *notes) add(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(n.lines, line) {
		n.lines = append(n.lines, line)
	}
}

// metadataNames are the names of the tables of a folder that is a data set as Hugging Face lays it out.
var metadataNames = []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"}

// isMetadata reports whether a file is the table of its folder: one of metadataNames, or a list of media with captions beside
// it. names are all files.
func isMetadata(name string, names []string) bool {
	if slices.Contains(metadataNames, path.Base(name)) {
		return true
	}
	return slices.Contains(read.Lists, path.Base(name)) && slices.ContainsFunc(read.CaptionLists, func(captions string) bool {
		return slices.Contains(names, path.Join(path.Dir(name), captions))
	})
}

// isFolder reports whether a location is a folder of this host or a prefix of a bucket.
func isFolder(at string) bool {
	if source.IsAddress(at) {
		return strings.HasSuffix(at, "/")
	}
	info, err := os.Stat(at)
	return err == nil && info.IsDir()
}

// folder is a folder below an input, and what it holds itself.
type folder struct {
	frames []string // png and jpeg files
	others []string // other media files and tars
	deeper bool     // folders below it hold media
}

// openFolders puts what folders stand for in their place. A folder with a table of metadata stays.
func openFolders(files []string, n *notes) (all []string, err error) {
	for _, at := range files {
		found := []string{at}
		table, err := metadataOf(at)
		if err == nil && table == "" && isFolder(at) {
			found, err = openFolder(at, n)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// openFolder returns the inputs that a folder stands for. A folder of png or jpeg files alone is one clip, whose frames they
// are. Any other stands for the media files and tars in it and below, for the folders of frames below, and for the folders with
// a table of metadata.
func openFolder(root string, n *notes) ([]string, error) {
	names, err := source.List(context.Background(), root, read.MaxFiles)
	if err != nil {
		return nil, err
	}
	names = read.WithoutOutputs(names)
	bare, err := findBare(root, names)
	if err != nil {
		return nil, err
	}
	folders, tables, rest := sortFiles(names, bare)
	if len(folders) == 0 && len(tables) == 0 {
		if found, err := read.Tables(root); err != nil || len(found) > 0 {
			return found, err
		}
	}
	below := func(name string) string { return strings.TrimSuffix(root, "/") + "/" + name }
	end := ""
	if source.IsAddress(root) { // where a slash makes a folder
		end = "/"
	}
	if top := folders["."]; len(folders) == 0 || len(folders) == 1 && top != nil && len(top.others) == 0 && len(tables) == 0 {
		if top != nil && len(top.frames) > 1 {
			n.add("%s is one clip of %d frames; for %d images write %s", below(""), len(top.frames), len(top.frames), below("*"))
		}
		return []string{root}, nil // if it holds no media, whoever reads it says so
	}
	var all, clips []string
	for at, f := range folders {
		if len(f.others) == 0 && !f.deeper && len(f.frames) > 0 && at != "." {
			clips = append(clips, below(at)+end)
			continue
		}
		for _, name := range slices.Concat(f.frames, f.others) {
			all = append(all, below(name))
		}
	}
	if top := folders["."]; top != nil && len(top.frames) > 0 {
		n.mixed = root
	}
	describeFolder(root, all, clips, rest, n)
	all = append(all, clips...)
	for _, at := range tables {
		all = append(all, below(at)+end)
	}
	slices.Sort(all)
	return all, nil
}

// sortFiles sorts the names of files below a folder by the folders that they lie in. It leaves out files that are no media, and
// all below a folder with a table of metadata; tables lists those. bare are media files without an extension. rest counts what is neither
// media nor a caption, by extension.
func sortFiles(names []string, bare map[string]bool) (folders map[string]*folder, tables []string, rest map[string]int) {
	for _, name := range names {
		if at := path.Dir(name); isMetadata(name, names) && !inside(tables, at) {
			tables = append(tables, at)
		}
	}
	folders, rest = map[string]*folder{}, map[string]int{}
	for _, name := range names {
		at := path.Dir(name)
		if inside(tables, at) {
			continue
		}
		if ext := strings.ToLower(path.Ext(name)); media.KindOf(name) == "" && !bare[name] && ext != ".tar" {
			if ext != captionExt {
				rest[cmp.Or(ext, "without extension")]++
			}
			continue
		}
		if folders[at] == nil {
			folders[at] = &folder{}
		}
		if media.IsFrame(name) {
			folders[at].frames = append(folders[at].frames, name)
		} else {
			folders[at].others = append(folders[at].others, name)
		}
	}
	for at := range folders {
		for at != "." {
			at = path.Dir(at)
			if f := folders[at]; f != nil {
				f.deeper = true
			}
		}
	}
	return folders, tables, rest
}

// findBare finds the media files among names without an extension, by their first bytes.
func findBare(root string, names []string) (bare map[string]bool, err error) {
	bare = map[string]bool{}
	for _, name := range names {
		if path.Ext(name) != "" {
			continue
		}
		f, err := source.Open(context.Background(), strings.TrimSuffix(root, "/")+"/"+name)
		if err != nil {
			return nil, err
		}
		kind, err := media.KindOfContent(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		bare[name] = kind != ""
	}
	return bare, nil
}

// inside reports whether a folder is one of a list or lies below one.
func inside(list []string, at string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return at == one || strings.HasPrefix(at, one+"/") })
}

// describeFolder notes what a folder stands for.
func describeFolder(root string, files, clips []string, rest map[string]int, n *notes) {
	count := map[string]int{}
	for _, name := range files {
		switch kind := media.KindOf(name); kind {
		case "":
			if path.Ext(name) == "" {
				count["media files without an extension"]++
			} else {
				count["tars"]++
			}
		default:
			count[kind+"s"]++
		}
	}
	if len(clips) > 0 {
		count["clips of frames"] = len(clips)
	}
	root = strings.TrimSuffix(root, "/")
	n.add("%s/ stands for the media in it and below: %s", root, listCounts(count))
	if len(rest) > 0 {
		n.add("%s/ has other files, which are left out because their names are none of media: %s", root, listCounts(rest))
	}
	switch len(clips) {
	case 0:
	case 1:
		n.add("%s is one clip of frames; for single images write %s/*", clips[0], clips[0])
	default:
		n.add("%s and %d more folders are one clip of frames each; for single images write %s/**/*", clips[0], len(clips)-1, root)
	}
}

// noteLeftOut notes media files that lie beside those that a pattern matches and that no pattern matches.
func noteLeftOut(patterns, files []string, n *notes) {
	for _, pattern := range patterns {
		folder, last := filepath.Split(pattern)
		if source.IsAddress(pattern) || !strings.ContainsAny(last, `*?[{`) || last == "*" || last == "**" {
			continue
		}
		beside, err := source.Expand(context.Background(), []string{folder + "*"}, read.MaxFiles)
		if err != nil {
			continue // a note is not worth an error
		}
		count := map[string]int{}
		all := 0
		for _, name := range beside {
			if media.KindOf(name) != "" && !slices.Contains(files, name) && !isFolder(name) {
				count[filepath.Ext(name)]++
				all++
			}
		}
		if all > 0 {
			n.add("%s leaves out %d media files beside those that it matches: %s", pattern, all, listCounts(count))
		}
	}
}

// listCounts writes counts by name, most first.
func listCounts(count map[string]int) string {
	var parts []string
	for name, n := range count {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
