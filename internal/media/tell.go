package media

import (
	"log/slog"
	"sync"
)

// told are the things that a person was told of files. Each is told once, with the first file: a data set may have a million.
var told sync.Map

// tellOnce warns of a file unless another such file was named before.
func tellOnce(what, path string) {
	if _, known := told.LoadOrStore(what, true); !known {
		slog.Warn(what+"; other such files are not named", "file", path)
	}
}

// Tell warns of what a person may not expect of a file.
func (l Look) Tell(path string) {
	if l.interlaced {
		tellOnce("a video is interlaced: its two fields are made one frame (ffmpeg's bwdif), the frame rate stays", path)
	}
	if l.transfer != "" {
		tellOnce("a video has a high dynamic range ("+l.transfer+"): unless the job says otherwise its values are taken as they are, paler than on a screen; "+
			"input: {hdr: tonemap} converts them, {hdr: fail} refuses such files", path)
	}
}
