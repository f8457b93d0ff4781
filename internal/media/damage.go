package media

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/system/process"
)

// Damage is what a decoder said of errors in a video.
type Damage struct {
	Errors int    // up to the last frame that was asked for
	used   bool   // some may show in frames that were asked for
	first  string // of those, else of all
}

// damageMargin is for how many frames an error is counted beyond the frame before which the decoder tells it: frames are
// put in order behind the decoder.
const damageMargin = 8

// foreign are the parts of ffmpeg whose errors say nothing of the frames: they write, scale or read sound.
var foreign = regexp.MustCompile(`^\[(yuv4mpegpipe|null|out#|wrapped_avframe|sws|aac|mp[23]|ac3|eac3|opus|vorbis|flac|alac|pcm_|dca|dts|mov_text|srt|ass)`)

// unreferenced are errors of frames whose key frame the file does not have, because it begins in the middle.
var unreferenced = regexp.MustCompile(`(?i)non-existing (PPS|SPS)|(PPS|SPS|VPS)( id)? .*(does not exist|unavailable|out of range)|decode_slice_header error|` +
	`no frame!|could not find ref|missing reference|reference picture missing|references? (are|is) (un|not )available|mmco: unref|` +
	`co located POCs unavailable|first slice in a frame missing|first frame is no keyframe|missing picture|invalid frame dimensions 0x0|` +
	`error parsing NAL unit|error while decoding stream|error submitting packet|skipping .*keyframe|not all references`)

// decodeErrors are the lines about errors of the decoder or the reader of the file.
func decodeErrors(stderr string) (lines []string) {
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(address.ReplaceAllString(line, ""))
		if line != "" && !foreign.MatchString(line) && !strings.HasPrefix(line, "Last message repeated") {
			lines = append(lines, line)
		}
	}
	return lines
}

// shownFrame is a frame of a file.
type shownFrame struct {
	time float64 // seconds behind the first frame
	key  bool
}

// scan is what ffmpeg says while it decodes a file with one thread: frames and errors in their order.
type scan struct {
	origin float64 // time of the first frame; NaN: that of the first that comes
	enough func(shownFrame, int) bool
	stop   func()

	rest   []byte
	frames []shownFrame
	errors []scanError
}

type scanError struct {
	before int // the number of the frame in front of which it was told
	text   string
}

var showinfo = regexp.MustCompile(`\[Parsed_showinfo.* n: *\d+ pts: *\S+ +pts_time:(\S+) .* iskey:(\d)`)

// Write takes what ffmpeg says.
func (s *scan) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		line, rest, found := bytes.Cut(s.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		s.line(string(line))
		s.rest = rest
	}
}

func (s *scan) line(line string) {
	if m := showinfo.FindStringSubmatch(line); m != nil {
		at, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			at = 0
			if n := len(s.frames); n > 0 {
				at = s.origin + s.frames[n-1].time
			}
		}
		if math.IsNaN(s.origin) {
			s.origin = at
		}
		f := shownFrame{at - s.origin, m[2] == "1"}
		s.frames = append(s.frames, f)
		if s.enough(f, len(s.frames)) {
			s.stop()
		}
		return
	}
	if before, said, found := strings.Cut(line, "[error] "); found || strings.Contains(line, "[fatal] ") {
		for _, text := range decodeErrors(before + said) {
			s.errors = append(s.errors, scanError{len(s.frames), text})
		}
	}
}

// damage says which of the errors show in frames for which uses is true.
func (s *scan) damage(uses func(number int, f shownFrame) bool) (d Damage) {
	for _, e := range s.errors {
		d.Errors++
		if d.first == "" {
			d.first = e.text
		}
		if e.before == 0 && unreferenced.MatchString(e.text) || d.used {
			continue
		}
		for i := e.before; i < len(s.frames); i++ { // up to a key frame that is surely behind it
			if uses(i, s.frames[i]) {
				d.used, d.first = true, e.text
				break
			}
			if i+1 < len(s.frames) && s.frames[i+1].key && i+1 >= e.before+damageMargin {
				break
			}
		}
		// Frames that the error took away would have come behind the last one.
		if e.before >= len(s.frames) && len(s.frames) > 0 && uses(len(s.frames)-1, s.frames[len(s.frames)-1]) {
			d.used, d.first = true, e.text
		}
	}
	return d
}

// scanDamage decodes a file once more, up to the frames that o asks for, to learn where its errors are.
func scanDamage(ctx context.Context, program, path string, o SourceOptions, interlaced bool) (Damage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := append([]string{"-nostdin"}, confined...)
	args[slices.Index(args, "error")] = "level+info"
	s := &scan{origin: math.NaN(), stop: cancel}
	start := 0
	if w := o.Window; w != nil {
		start = w.Start
		if w.Seek != 0 && o.FPS > 0 && !interlaced {
			s.origin = float64(w.Origin) / 1e6
			args = append(args, "-noaccurate_seek", "-seek_timestamp", "1", "-ss", fmt.Sprintf("%dus", w.Seek), "-copyts")
		}
	}
	uses := func(number int, f shownFrame) bool {
		return number >= start && (o.Frames == 0 || number < start+o.Frames)
	}
	past := func(f shownFrame, number int) bool { return o.Frames > 0 && number >= start+o.Frames+damageMargin }
	if o.FPS > 0 {
		begin, end := float64(start)/o.FPS, math.Inf(1)
		if o.Frames > 0 {
			end = float64(start+o.Frames) / o.FPS
		}
		const second = 1 // more than damageMargin frames of most videos
		uses = func(_ int, f shownFrame) bool { return f.time >= begin-1/o.FPS && f.time < end }
		past = func(f shownFrame, _ int) bool { return f.time > end+second }
	}
	s.enough = past
	args = append(args, "-threads", "1", "-i", "file:"+path, "-map", "0:v:0", "-vf", "showinfo", "-f", "null", "-")
	child, err := process.Start(ctx, process.Command{Path: program, Args: args, Stderr: s, Stall: frameTime, AddressSpace: maxMemory})
	if err != nil {
		return Damage{}, err
	}
	err = child.Wait() // that it fails is one of the errors
	if cause := context.Cause(ctx); cause != nil && !past(s.last(), len(s.frames)) {
		return Damage{}, err
	}
	return s.damage(uses), nil
}

// last is the last frame.
func (s *scan) last() shownFrame {
	if len(s.frames) == 0 {
		return shownFrame{}
	}
	return s.frames[len(s.frames)-1]
}
