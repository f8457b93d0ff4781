package media

import (
	"log/slog"
	"sync"
)

// warned has the warnings that were logged. Each is logged once, for the first file, because a data set may have a million files.
var warned sync.Map

// warnOnce logs a warning about a file, unless the same warning was given before.
func warnOnce(what, path string) {
	if _, known := warned.LoadOrStore(what, true); !known {
		slog.Warn(what+"; other such files are not named", "file", path)
	}
}

// Tell warns about properties of a file that the user may not expect.
func (l Look) Tell(path string) {
	if l.interlaced {
		warnOnce("a video is interlaced: its two fields become one frame (ffmpeg's bwdif), and the frame rate stays", path)
	}
	if l.transfer != "" {
		warnOnce("a video has a high dynamic range ("+l.transfer+"): by default its values are used unchanged, which looks paler than on a screen; "+
			"input: {hdr: tonemap} converts them, {hdr: fail} refuses such files", path)
	}
}
