package media

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"latentbeam/internal/media/mp4"
	"latentbeam/internal/system"
	"latentbeam/internal/system/process"
	"latentbeam/schemas"
)

// Look contains everything besides a file's content that decides how its frames are shown. String returns it for the digest.
type Look struct {
	format format
	// turn is the orientation of an image, 1 to 8, see orientation; 0 for other files.
	turn int
	// aspect is the width of a displayed pixel divided by its height, as a fraction; 0/0: square.
	aspect [2]int
	// interlaced video is deinterlaced.
	interlaced bool
	// transfer is the curve of video with high dynamic range, PQ or HLG; "" for other files.
	transfer string
}

// The curves of video with high dynamic range (ITU-R BT.2100).
const (
	PQ  = "pq"
	HLG = "hlg"
)

// String returns the format, followed by everything unusual. LookFrom parses it.
func (l Look) String() string {
	parts := []string{string(l.format)}
	if l.turn > 1 {
		parts = append(parts, "turn="+strconv.Itoa(l.turn))
	}
	if l.aspect != [2]int{} {
		parts = append(parts, fmt.Sprintf("aspect=%d:%d", l.aspect[0], l.aspect[1]))
	}
	if l.interlaced {
		parts = append(parts, "interlaced")
	}
	if l.transfer != "" {
		parts = append(parts, "transfer="+l.transfer)
	}
	return strings.Join(parts, " ")
}

// LookFrom parses the result of String.
func LookFrom(text string) (l Look, ok bool) {
	kind, rest, _ := strings.Cut(text, " ")
	l.format = format(kind)
	for _, word := range strings.Fields(rest) {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "turn":
			l.turn, err = strconv.Atoi(value)
		case "aspect":
			_, err = fmt.Sscanf(value, "%d:%d", &l.aspect[0], &l.aspect[1])
		case "interlaced":
			l.interlaced = true
		case "transfer":
			l.transfer = value
		default:
			return l, false
		}
		if err != nil {
			return l, false
		}
	}
	_, image := codecs[l.format]
	return l, image || l.format == y4mFormat || l.format == otherFormat || l.format == noFormat
}

// Behind returns the suffix of the digest of a file with this Look, as used in keys: the version of an ffmpeg that decodes it,
// and everything that earlier versions read differently. It is "" for plain y4m, png and jpeg. AsRead may remove the curve at
// its end.
func (l Look) Behind() string {
	text := ""
	if l.byFFmpeg() {
		if program, err := exec.LookPath("ffmpeg"); err == nil { // otherwise opening the file reports the error
			if version, err := programVersion(program); err == nil {
				text = " " + version
			}
		}
	}
	switch l.format {
	case webpFormat, bmpFormat, tiffFormat, gifFormat: // earlier versions read them with ffmpeg
		text += " decoded=" + string(l.format)
	}
	if l.turn > 1 {
		text += " turn=" + strconv.Itoa(l.turn)
	}
	if l.aspect != [2]int{} {
		text += fmt.Sprintf(" aspect=%d:%d", l.aspect[0], l.aspect[1])
	}
	if l.interlaced {
		text += " deinterlaced"
	}
	if l.transfer != "" {
		text += highRange + l.transfer
	}
	return text
}

// highRange precedes the curve in the digest of video with high dynamic range.
const highRange = " hdr="

// AsRead returns the part of a key for a file with this digest under a rule for high dynamic range, see Rules. Only tone-mapped
// files have another key.
func AsRead(digest, hdr string) string {
	digest, transfer, high := strings.Cut(digest, highRange)
	if high && hdr == schemas.HDRTonemap {
		digest += " tonemap=" + transfer + "/1"
	}
	return digest
}

// Transfer returns the curve of video with high dynamic range: PQ, HLG or "".
func (l Look) Transfer() string { return l.transfer }

// byFFmpeg reports whether ffmpeg decodes the file.
func (l Look) byFFmpeg() bool {
	return l.format == otherFormat || l.format == y4mFormat && l.interlaced
}

// shown returns the display size of frames with stored pixels of this size. One side grows by the aspect of the pixels, the
// other stays. So a video and its rotated copy have the same sizes.
func (l Look) shown(width, height int) (int, int) {
	return SourceInfo{Width: width, Height: height, Aspect: l.aspect}.shown()
}

func (i SourceInfo) shown() (width, height int) {
	scaled := func(n, by, of int) int { return int(math.Round(float64(n) * float64(by) / float64(of))) }
	switch a := i.Aspect; {
	case a[0] > a[1]:
		return scaled(i.Width, a[0], a[1]), i.Height
	case a[0] < a[1]:
		return i.Width, scaled(i.Height, a[1], a[0])
	}
	return i.Width, i.Height
}

// Content is the bytes of a file, which may not be a local file.
type Content struct {
	io.ReaderAt
	Size int64
	Name string
	// Local returns the path of a local file with the content, for ffprobe. The caller must call release.
	Local func() (path string, release func(), err error)
}

// Look returns the Look of a file. Errors in the file are reported when it is opened.
func (c Content) Look(ctx context.Context) (l Look, err error) {
	if l.format, err = formatOf(c); err != nil {
		return l, err
	}
	switch {
	case l.format.isImage():
		l.turn = orientation(c, l.format)
		return l, nil
	case l.format == y4mFormat:
		s, err := newY4M(io.NopCloser(section(c)))
		l.interlaced = errors.Is(err, errInterlaced)
		if s != nil {
			l.aspect = s.aspect
		}
		return l, nil
	case mp4.Ordinary(c, c.Size):
		return l, nil
	case misnamed(c.Name, c):
		l.format = noFormat
		return l, nil
	}
	path, release, err := c.Local()
	if err != nil {
		return l, err
	}
	defer release()
	return l, l.probe(ctx, path)
}

// looks caches the Look of the last files, by path, size and time.
var looks = struct {
	sync.Mutex
	known map[seen]Look
}{known: map[seen]Look{}}

type seen struct {
	path string
	size int64
	time int64
}

// maxLooks limits the cache.
const maxLooks = 1 << 15

// LookAt returns the Look of a local file.
func LookAt(ctx context.Context, path string) (Look, error) {
	f, err := system.OpenRegular(path)
	if err != nil {
		return Look{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Look{}, err
	}
	at := seen{path, info.Size(), info.ModTime().UnixNano()}
	looks.Lock()
	l, known := looks.known[at]
	looks.Unlock()
	if known {
		return l, nil
	}
	c := Content{f, info.Size(), path, func() (string, func(), error) { return path, func() {}, nil }}
	if l, err = c.Look(ctx); err != nil {
		return l, err
	}
	looks.Lock()
	defer looks.Unlock()
	if len(looks.known) >= maxLooks {
		clear(looks.known)
	}
	looks.known[at] = l
	return l, nil
}

// streamFacts is what ffprobe reports about a video stream.
type streamFacts struct {
	Width, Height int
	Aspect        string `json:"sample_aspect_ratio"`
	Fields        string `json:"field_order"`
	Transfer      string `json:"color_transfer"`
	Sides         []struct {
		Rotation float64
	} `json:"side_data_list"`
}

// turnedByAQuarter reports whether the sides of frames are swapped for display.
func (s streamFacts) turnedByAQuarter() bool {
	for _, side := range s.Sides {
		if math.Mod(math.Abs(side.Rotation), 180) == 90 {
			return true
		}
	}
	return false
}

// probe runs ffprobe for the first video stream. A file that ffprobe does not recognise counts as plain: opening it reports the
// error.
func (l *Look) probe(ctx context.Context, path string) error {
	program, err := exec.LookPath("ffprobe")
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	const most = 1 << 20
	args := append(slices.Clone(confined), "-select_streams", "v:0", "-show_entries",
		"stream=width,height,sample_aspect_ratio,field_order,color_transfer:stream_side_data=rotation", "-of", "json", "file:"+path)
	out, err := process.Output(ctx, process.Command{Path: program, Args: args, Stall: frameTime, AddressSpace: maxMemory}, most)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var said struct{ Streams []streamFacts }
	if err != nil || json.Unmarshal(out, &said) != nil || len(said.Streams) == 0 {
		return nil //nolint:nilerr // see above
	}
	l.setFacts(said.Streams[0])
	return nil
}

// setFacts reads the facts of ffprobe.
func (l *Look) setFacts(s streamFacts) {
	l.interlaced = slices.Contains([]string{"tt", "bb", "tb", "bt"}, s.Fields)
	l.transfer = map[string]string{"smpte2084": PQ, "arib-std-b67": HLG}[s.Transfer]
	var num, den int
	if _, err := fmt.Sscanf(s.Aspect, "%d:%d", &num, &den); err == nil {
		if s.turnedByAQuarter() {
			num, den = den, num
		}
		l.aspect = pixelAspect(num, den)
	}
}

// maxAspect limits the ratio of a pixel's sides; a larger ratio is an error in the file.
const maxAspect = 16

// pixelAspect returns a ratio in lowest terms, 0/0 for square pixels and for invalid ratios.
func pixelAspect(num, den int) [2]int {
	if num <= 0 || den <= 0 || num == den || num > maxAspect*den || den > maxAspect*num {
		return [2]int{}
	}
	a, b := num, den
	for b != 0 {
		a, b = b, a%b
	}
	return [2]int{num / a, den / a}
}

// aspectOf parses a pixel aspect such as 4:3.
func aspectOf(text string) [2]int {
	num, den, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(num)
	d, err2 := strconv.Atoi(den)
	if cmp.Or(err, err2) != nil {
		return [2]int{}
	}
	return pixelAspect(n, d)
}
