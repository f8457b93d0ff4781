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

// notes collects messages for the user about how the input was read, without duplicates.
type notes struct {
	lines []string
	mixed string // a folder with frames and other media, which earlier releases read as one clip; "": none
}

// add adds a message unless it is there already.
func (n *notes) add(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(n.lines, line) {
		n.lines = append(n.lines, line)
	}
}

// metadataNames are the names of the table in a data set folder with the layout of Hugging Face.
var metadataNames = []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"}

// isMetadata reports whether a file is the table of its folder: one of metadataNames, or a list of media with a list of
// captions beside it. names are all files.
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

// folder lists the files directly in one folder of an input.
type folder struct {
	frames []string // png and jpeg files
	others []string // other media files and tars
	deeper bool     // subfolders contain media
}

// openFolders replaces each folder in files with the inputs in it. A folder with a metadata table stays as it is.
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

// openFolder returns the inputs in a folder. A folder that contains only png or jpeg files is one clip, and the files are its frames.
// For any other folder, openFolder returns the media files and tars in it and in its subfolders, the subfolders of frames, and
// the subfolders with a metadata table.
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
	if source.IsAddress(root) { // in a bucket, folders end with a slash
		end = "/"
	}
	if top := folders["."]; len(folders) == 0 || len(folders) == 1 && top != nil && len(top.others) == 0 && len(tables) == 0 {
		if top != nil && len(top.frames) > 1 {
			n.add("%s is one clip of %d frames; for %d images write %s", below(""), len(top.frames), len(top.frames), below("*"))
		}
		return []string{root}, nil // if it has no media, reading it returns the error
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

// sortFiles groups media files by their folder. It leaves out other files, and everything below a folder with a metadata
// table; tables lists those folders. bare are media files without an extension. rest counts, by extension, the files that are
// neither media nor captions.
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

// findBare finds media files among the names without an extension. It reads their first bytes.
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

// inside reports whether a folder is in the list or below a folder in the list.
func inside(list []string, at string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return at == one || strings.HasPrefix(at, one+"/") })
}

// describeFolder adds notes that say which inputs were found in a folder.
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

// noteLeftOut adds notes about media files that no pattern matches although they are in the same folder as matched files.
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

// listCounts formats counts by name, sorted as text.
func listCounts(count map[string]int) string {
	var parts []string
	for name, n := range count {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
