package input

import (
	"path/filepath"
	"strings"

	"latentbeam/schemas"
)

// fileIDs returns the ids of media files that cannot be their names without folder and extension, because several files have that
// name: the path below the folder that all files are in, without the extension if that tells them apart.
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
			short[below(top, file, true)]++
		}
		for _, file := range same {
			ids[file] = below(top, file, short[below(top, file, true)] == 1)
		}
	}
	return ids
}

// stemOf is the name of a media file without folder and extension.
func stemOf(file string) string { return filepath.Base(strings.TrimSuffix(file, filepath.Ext(file))) }

// below is the path of a file below a folder, with slashes.
func below(folder, file string, cutExtension bool) string {
	if cutExtension {
		file = strings.TrimSuffix(file, filepath.Ext(file))
	}
	return schemas.ValidText(strings.TrimPrefix(filepath.ToSlash(file), folder), schemas.MaxIDBytes)
}

// commonFolder returns the folder that all files are in, with a slash at its end; "" for none.
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
