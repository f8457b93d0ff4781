package media

import (
	"io"
	"path"
	"slices"
	"strings"
)

// Kinds of media files.
const (
	KindVideo = "video"
	KindImage = "image"
)

var extensions = map[string][]string{
	KindVideo: {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".mpg", ".mpeg", ".flv", ".gif", extY4M},
	KindImage: imageExtensions,
}

// KindOf tells a video from an image by the extension of a file's name. It returns "" for other files.
func KindOf(name string) string {
	ext := strings.ToLower(path.Ext(name))
	for kind, all := range extensions {
		if slices.Contains(all, ext) {
			return kind
		}
	}
	return ""
}

// KindOfContent tells a video from an image by the first bytes of a file. It returns "" for other files.
func KindOfContent(f io.ReaderAt) (kind string, err error) {
	switch found, err := formatOf(f); {
	case err != nil:
		return "", err
	case found.isImage():
		return KindImage, nil
	case found == y4mFormat || isVideo(f):
		return KindVideo, nil
	}
	return "", nil
}

// IsFrame reports whether a file is a frame of the folder that it lies in, by its extension.
func IsFrame(name string) bool { return slices.Contains(frameImages, strings.ToLower(path.Ext(name))) }
