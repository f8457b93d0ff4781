package media

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/schemas"
)

// Source is a video or an image that is read frame by frame.
type Source interface {
	// Info describes the frames; it does not change.
	Info() SourceInfo
	// Next fills rgb, Height*Width*3 bytes, with the next frame. After the last it returns io.EOF.
	Next(rgb []byte) error
	// Skip passes over the next n frames and returns over how many, fewer where the source ends.
	Skip(n int) (int, error)
	// Close ends the reading, and gives back the memory that frames take. Until then whoever opens another waits where there
	// is no room for both, so nobody opens a second one before.
	Close() error
}

// SourceInfo describes the frames of a Source.
type SourceInfo struct {
	Width, Height int
	// RateNum / RateDen are the frames a second; 0 / 0 where nobody says it: of images, and of folders of them.
	RateNum, RateDen int64
	// Still is set for a single image.
	Still bool
}

// SourceOptions says what of a source is wanted. Only ffmpeg makes use of it: what it need not decode is
// saved, and it alone knows when each frame of a file is shown.
type SourceOptions struct {
	Frames int     // that are read at most; 0: all
	Window *Window // where they begin in a file that ffmpeg decodes; nil: at its beginning
	FPS    float64 // at which they are wanted; 0: as they are
	FFmpeg string  // name or path of the program; "" is "ffmpeg" on PATH
}

// Window is where the frames that are wanted begin, at the rate at which they are wanted. The source then begins there.
type Window struct {
	Start  int   // frames before it
	Seek   int64 // time of a keyframe at or before it, see schemas.Cut; 0: the file is decoded from its beginning
	Origin int64 // time of the first frame of the file, where Seek is given
}

// Limits of a Source.
const (
	maxPixels       = 1 << 26 // of a frame
	FolderFramesMax = 1 << 16
)

// OpenSource opens a video or an image: y4m, png and jpeg are read here, a folder of png and jpeg images is a
// video of them in the order of their names, and everything else goes through ffmpeg.
func OpenSource(ctx context.Context, path string, o SourceOptions) (Source, error) {
	s, err := openSource(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, unplaced(err))
	}
	return s, nil
}

func openSource(ctx context.Context, path string, o SourceOptions) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	ext := strings.ToLower(filepath.Ext(path))
	switch {
	case info.IsDir():
		return openFolder(ctx, path)
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case ext == extY4M:
		s, err := openY4M(ctx, path)
		if errors.Is(err, errInterlaced) {
			return openFFmpeg(ctx, path, o)
		}
		return s, err
	case isImage(ext):
		return openFolderOf(ctx, []string{path}, true)
	}
	return openFFmpeg(ctx, path, o)
}

const extY4M = ".y4m"

// unplaced takes the operation and the path out of an error of the operating system; both are said already.
func unplaced(err error) error {
	var place *os.PathError
	if errors.As(err, &place) {
		return place.Err
	}
	return err
}

// check refuses frames of impossible size.
func (i SourceInfo) check() error {
	if i.Width < 1 || i.Height < 1 || i.Width > schemas.MaxSide || i.Height > schemas.MaxSide || i.Width*i.Height > maxPixels {
		return fmt.Errorf("frames of %dx%d: each side must be 1 to %d, and both together at most %d pixels",
			i.Width, i.Height, schemas.MaxSide, maxPixels)
	}
	return nil
}

// folderImages lists the png and jpeg files of a folder by name.
func folderImages(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && isImage(strings.ToLower(filepath.Ext(e.Name()))) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(files)
	switch {
	case len(files) == 0:
		return nil, errors.New("the folder holds no png or jpeg images; a folder is one video of such frames")
	case len(files) > FolderFramesMax:
		return nil, fmt.Errorf("the folder holds %d images, more than %d", len(files), FolderFramesMax)
	}
	return files, nil
}

func isImage(ext string) bool { return ext == ".png" || ext == ".jpg" || ext == ".jpeg" }
