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

// KindOf returns the kind of a file by its name's extension: video or image, or "" for other files.
func KindOf(name string) string {
	ext := strings.ToLower(path.Ext(name))
	for kind, all := range extensions {
		if slices.Contains(all, ext) {
			return kind
		}
	}
	return ""
}

// KindOfContent returns the kind of a file by its first bytes: video or image, or "" for other files.
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

// IsFrame reports whether a file is a frame of its folder, by its extension.
func IsFrame(name string) bool { return slices.Contains(frameImages, strings.ToLower(path.Ext(name))) }
