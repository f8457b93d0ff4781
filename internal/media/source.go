package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/schemas"
)

// Source is a video or an image that is read frame by frame.
type Source interface {
	// Info describes the frames. It does not change.
	Info() SourceInfo
	// Next fills rgb, Height*Width*3 bytes, with the next frame. After the last it returns io.EOF.
	Next(rgb []byte) error
	// Skip skips the next n frames and returns the number of skipped frames, fewer at the end of the source.
	Skip(n int) (int, error)
	// Close stops reading and frees the memory for frames. Until then, opening another Source waits if there is no memory for
	// both. So a caller must close one source before it opens another.
	Close() error
}

// SourceInfo describes the frames of a Source.
type SourceInfo struct {
	Width, Height int
	// Aspect is the width of a displayed pixel divided by its height, as a fraction; 0/0: 1.
	Aspect [2]int
	// RateNum / RateDen is the number of frames a second; 0 / 0 if unknown: for images and folders of images.
	RateNum, RateDen int64
	// Transfer is the curve of video with high dynamic range: PQ, HLG or "".
	Transfer string
	// Still is set for a single image.
	Still bool
}

// SourceOptions says which frames of a source are needed. Only ffmpeg uses it: it decodes no more than necessary, and only it
// knows when each frame of a file is shown.
type SourceOptions struct {
	Frames int     // most frames to read; 0: all
	Window *Window // start of the frames in a file that ffmpeg decodes; nil: its first frame
	FPS    float64 // requested rate; 0: the file's own
	FFmpeg string  // name or path of the program; "": "ffmpeg" in PATH
	// AsShown uses one chroma sample for all of its pixels, as players do. Otherwise chroma is interpolated.
	AsShown bool
	Rules
}

// Rules say what a job does with imperfect media. The zero value is the default.
type Rules struct {
	KeepErrors bool   // accept frames with decoding errors; otherwise they are an error
	HDR        string // for video with high dynamic range: schemas.HDRKeep (also ""), HDRTonemap or HDRFail
}

// RulesOf returns the rules of a row.
func RulesOf(row *schemas.PromptRow) Rules {
	return Rules{KeepErrors: row.DecodeErrors == schemas.DecodeErrorsKeep, HDR: row.HDR}
}

// Window is the start of the requested frames, at the requested rate. The source then starts there.
type Window struct {
	Start  int   // number of frames before it
	Seek   int64 // time of a keyframe at or before it, see schemas.Cut; 0: decode from the start of the file
	Origin int64 // time of the file's first frame, if Seek is set
}

// Limits of a Source.
const (
	maxPixels       = 1 << 26 // per frame
	FolderFramesMax = 1 << 16
)

// OpenSource opens a video or an image, whatever its name. y4m and images are read here; a folder of images is a video with the
// images in natural order; everything else is read with ffmpeg.
func OpenSource(ctx context.Context, path string, o SourceOptions) (Source, error) {
	s, err := openSource(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, withoutPlace(err))
	}
	return s, nil
}

func openSource(ctx context.Context, path string, o SourceOptions) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return openFolder(ctx, path)
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	look, err := LookAt(ctx, path)
	if err != nil {
		return nil, err
	}
	look.Tell(path)
	if look.transfer != "" && o.HDR == schemas.HDRFail {
		return nil, fmt.Errorf("the video has a high dynamic range (%s), and input: {hdr: fail} refuses such files", look.transfer)
	}
	switch {
	case look.format.isImage():
		return openFolderOf(ctx, []string{path}, true)
	case look.format == y4mFormat && !look.interlaced:
		return openY4M(ctx, path)
	}
	if err := look.refuse(path); err != nil {
		return nil, err
	}
	return openFFmpeg(ctx, path, o, look)
}

// misnamed reports whether a file has the name of an image or a y4m, but its first bytes belong to no known format.
func misnamed(name string, f io.ReaderAt) bool {
	ext := strings.ToLower(filepath.Ext(name))
	if ext != extY4M && !slices.Contains(imageExtensions, ext) {
		return false
	}
	return !isVideo(f)
}

// refuse returns the error for a misnamed file.
func (l Look) refuse(path string) error {
	if l.format != noFormat {
		return nil
	}
	return fmt.Errorf("not a %s file: its first bytes are those of no image or video", strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."))
}

// isVideo reports whether a file starts like a container that ffmpeg reads.
func isVideo(f io.ReaderAt) bool {
	const packet, sync = 188, 'G' // of mpegts
	var space [packet + 1]byte
	n, _ := f.ReadAt(space[:], 0) // 0 for an empty file
	head := string(space[:n])
	if n > packet && head[0] == sync && head[packet] == sync {
		return true
	}
	for start, at := range map[string]int{"ftyp": 4, "moov": 4, "mdat": 4, "wide": 4, "\x1aE\xdf\xa3": 0, "AVI ": 8, "FLV": 0,
		"\x00\x00\x01\xba": 0, "\x00\x00\x01\xb3": 0, "GIF8": 0} {
		if len(head) > at && strings.HasPrefix(head[at:], start) {
			return true
		}
	}
	return false
}

const extY4M = ".y4m"

// withoutPlace removes the operation and the path from an operating system error, because the message already contains both.
func withoutPlace(err error) error {
	var place *os.PathError
	if errors.As(err, &place) {
		return place.Err
	}
	return err
}

// check returns an error for frames with an impossible size.
func (i SourceInfo) check() error {
	if i.Width < 1 || i.Height < 1 || i.Width > schemas.MaxSide || i.Height > schemas.MaxSide || i.Width*i.Height > maxPixels {
		return fmt.Errorf("frames of %dx%d: each side must be 1 to %d, and both together at most %d pixels",
			i.Width, i.Height, schemas.MaxSide, maxPixels)
	}
	return nil
}

// imageExtensions are the extensions of images in folders of frames.
var imageExtensions = []string{".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".tif", ".tiff"}

// frameImages are the extensions that count as frames if a folder has any of them. Earlier versions knew only these.
var frameImages = []string{".png", ".jpg", ".jpeg"}

// FrameFiles returns the frames of a folder in display order, given the names of its files: png and jpeg, or if there are none
// the other images. Hidden files are ignored.
func FrameFiles(names []string) (frames []string) {
	for _, extensions := range [][]string{frameImages, imageExtensions} {
		for _, name := range names {
			if !Hidden(name) && slices.Contains(extensions, strings.ToLower(path.Ext(name))) {
				frames = append(frames, name)
			}
		}
		if len(frames) > 0 {
			break
		}
	}
	slices.SortFunc(frames, natural)
	return frames
}

// Hidden reports whether a file is hidden and not made by people: ._clip.mp4 and .DS_Store of macOS, Thumbs.db of Windows.
func Hidden(name string) bool {
	name = path.Base(name)
	return strings.HasPrefix(name, ".") || strings.EqualFold(name, "Thumbs.db") || strings.EqualFold(name, "desktop.ini")
}

// natural compares names with numbers by value: 2.png comes before 10.png. Equal numbers are compared by their bytes.
func natural(a, b string) int {
	whole := cmp.Compare(a, b)
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789"))
	}
	for a != "" && b != "" {
		n, m := digits(a), digits(b)
		if n == 0 || m == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// folderImages lists the frames of a folder in display order.
func folderImages(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	frames := FrameFiles(names)
	switch {
	case len(frames) == 0:
		return nil, errors.New("the folder holds no png or jpeg images, nor webp, bmp or tiff; a folder is one video of such frames")
	case len(frames) > FolderFramesMax:
		return nil, fmt.Errorf("the folder holds %d images, more than %d", len(frames), FolderFramesMax)
	case !slices.IsSorted(frames):
		warnOnce("the frames of a folder are shown in the order of their numbers, "+frames[0]+" to "+frames[len(frames)-1]+
			", which is not the order of their names as text", dir)
	}
	for i, name := range frames {
		frames[i] = filepath.Join(dir, name)
	}
	return frames, nil
}
