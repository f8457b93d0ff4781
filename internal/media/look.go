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

// Look is what decides, beside its content, how the frames of a file are shown. Its String goes with the content's digest.
type Look struct {
	format format
	// turn is the orientation of an image, 1 to 8, see orientation; 0 of all else.
	turn int
	// aspect is width / height of a pixel as it is shown, a fraction; 0/0: square.
	aspect [2]int
	// interlaced video is deinterlaced.
	interlaced bool
	// transfer is the curve of video of high dynamic range, PQ or HLG; "" of all else.
	transfer string
}

// The curves of video of high dynamic range (ITU-R BT.2100).
const (
	PQ  = "pq"
	HLG = "hlg"
)

// String is the format, and behind it what is not plain. lookFrom reads it.
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

// LookFrom is the inverse of String.
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

// Behind is what stands in keys behind the digest of a file that is looked at so: the version of an ffmpeg that decodes it, and all
// that earlier versions read in another way. It is "" for plain y4m, png and jpeg. AsRead takes the curve
// at its end away.
func (l Look) Behind() string {
	text := ""
	if l.byFFmpeg() {
		if program, err := exec.LookPath("ffmpeg"); err == nil { // else opening the file says so
			if version, err := programVersion(program); err == nil {
				text = " " + version
			}
		}
	}
	switch l.format {
	case webpFormat, bmpFormat, tiffFormat, gifFormat: // ffmpeg read them before
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

// highRange begins the end of the digest of video of high dynamic range.
const highRange = " hdr="

// AsRead is what stands in keys for a file with a digest that is read under a rule for high dynamic range, see Rules: only a file that is
// tone-mapped has another key.
func AsRead(digest, hdr string) string {
	digest, transfer, high := strings.Cut(digest, highRange)
	if high && hdr == schemas.HDRTonemap {
		digest += " tonemap=" + transfer + "/1"
	}
	return digest
}

// Transfer is the curve of video of high dynamic range: PQ, HLG or "".
func (l Look) Transfer() string { return l.transfer }

// byFFmpeg reports whether ffmpeg decodes the file.
func (l Look) byFFmpeg() bool {
	return l.format == otherFormat || l.format == y4mFormat && l.interlaced
}

// shown is the size at which frames of stored pixels are shown: one side grows by the pixels' aspect, the other stays, so a video and
// its copy on the side have the same.
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

// Content is the bytes of a file that need not lie on this host as a file.
type Content struct {
	io.ReaderAt
	Size int64
	Name string
	// Local returns the path of a file with the content, for ffprobe. release ends its use.
	Local func() (path string, release func(), err error)
}

// Look looks at a file. What is wrong with it shows when it is opened.
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

// looks are the last files that were looked at, by path, size and time.
var looks = struct {
	sync.Mutex
	known map[seen]Look
}{known: map[seen]Look{}}

type seen struct {
	path string
	size int64
	time int64
}

// maxLooks bounds looks.
const maxLooks = 1 << 15

// LookAt looks at a file on this host.
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

// streamFacts is what ffprobe says of a video stream.
type streamFacts struct {
	Width, Height int
	Aspect        string `json:"sample_aspect_ratio"`
	Fields        string `json:"field_order"`
	Transfer      string `json:"color_transfer"`
	Sides         []struct {
		Rotation float64
	} `json:"side_data_list"`
}

// turnedByAQuarter reports whether the sides of frames are swapped when they are shown.
func (s streamFacts) turnedByAQuarter() bool {
	for _, side := range s.Sides {
		if math.Mod(math.Abs(side.Rotation), 180) == 90 {
			return true
		}
	}
	return false
}

// probe asks ffprobe about the first video stream. A file of which it knows nothing is plain: opening it says what is wrong.
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
	l.take(said.Streams[0])
	return nil
}

// take takes what ffprobe says.
func (l *Look) take(s streamFacts) {
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

// maxAspect bounds the ratio of a pixel's sides; a larger one is damage.
const maxAspect = 16

// pixelAspect is a ratio in its lowest terms, 0/0 for square pixels and for nonsense.
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

// aspectOf is a pixel aspect of the form 4:3.
func aspectOf(text string) [2]int {
	num, den, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(num)
	d, err2 := strconv.Atoi(den)
	if cmp.Or(err, err2) != nil {
		return [2]int{}
	}
	return pixelAspect(n, d)
}
