package input

import (
	"path/filepath"
	"strings"

	"latentbeam/schemas"
)

// fileIDs returns ids for media files that share a name with others. A file's id is usually its name without folder and
// extension. Here it is the path below the folder common to all files, without the extension if it is still unique.
func fileIDs(files []string) map[string]string {
	stems := map[string][]string{}
	for _, file := range files {
		stem := stemOf(file)
		stems[stem] = append(stems[stem], file)
	}
	if len(stems) == len(files) {
		return nil
	}
	top, ids := commonFolder(files), map[string]string{}
	for _, same := range stems {
		if len(same) == 1 {
			continue
		}
		short := map[string]int{}
		for _, file := range same {
			short[relativeTo(top, file, true)]++
		}
		for _, file := range same {
			ids[file] = relativeTo(top, file, short[relativeTo(top, file, true)] == 1)
		}
	}
	return ids
}

// stemOf returns the name of a media file without folder and extension.
func stemOf(file string) string { return filepath.Base(strings.TrimSuffix(file, filepath.Ext(file))) }

// relativeTo returns the path of a file below a folder, with slashes.
func relativeTo(folder, file string, cutExtension bool) string {
	if cutExtension {
		file = strings.TrimSuffix(file, filepath.Ext(file))
	}
	return schemas.ValidText(strings.TrimPrefix(filepath.ToSlash(file), folder), schemas.MaxIDBytes)
}

// commonFolder returns the folder that contains all files, with a slash at its end; "": none.
func commonFolder(files []string) string {
	top := ""
	for i, file := range files {
		file = strings.TrimSuffix(filepath.ToSlash(file), "/")
		at := file[:strings.LastIndexByte(file, '/')+1]
		for i > 0 && !strings.HasPrefix(at, top) {
			shorter := strings.LastIndexByte(strings.TrimSuffix(top, "/"), '/')
			if top = top[:shorter+1]; top == "" {
				return ""
			}
		}
		if i == 0 {
			top = at
		}
		if top == "" {
			return ""
		}
	}
	return top
}
