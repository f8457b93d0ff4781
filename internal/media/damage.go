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

// Damage describes the errors that a decoder reported for a video.
type Damage struct {
	Errors int    // number of errors up to the last requested frame
	used   bool   // some may be visible in requested frames
	first  string // first error that may be visible, or else the first error
}

// damageMargin is how many frames after its report an error may affect, because frames are reordered after decoding.
const damageMargin = 8

// foreign matches parts of ffmpeg whose errors do not concern frames: they write, scale or read sound.
var foreign = regexp.MustCompile(`^\[(yuv4mpegpipe|null|out#|wrapped_avframe|sws|aac|mp[23]|ac3|eac3|opus|vorbis|flac|alac|pcm_|dca|dts|mov_text|srt|ass)`)

// unreferenced matches errors of frames whose key frame is missing, because the file starts in the middle of a video.
var unreferenced = regexp.MustCompile(`(?i)non-existing (PPS|SPS)|(PPS|SPS|VPS)( id)? .*(does not exist|unavailable|out of range)|decode_slice_header error|` +
	`no frame!|could not find ref|missing reference|reference picture missing|references? (are|is) (un|not )available|mmco: unref|` +
	`co located POCs unavailable|first slice in a frame missing|first frame is no keyframe|missing picture|invalid frame dimensions 0x0|` +
	`error parsing NAL unit|error while decoding stream|error submitting packet|skipping .*keyframe|not all references`)

// decodeErrors returns the lines with errors of the decoder or the demuxer.
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
	time float64 // seconds after the first frame
	key  bool
}

// scan collects ffmpeg's output while it decodes a file with one thread: frames and errors in order.
type scan struct {
	origin float64 // time of the first frame; NaN: unknown until the first frame arrives
	enough func(shownFrame, int) bool
	stop   func()

	rest   []byte
	frames []shownFrame
	errors []scanError
}

type scanError struct {
	before int // number of the frame before which the error was reported
	text   string
}

var showinfo = regexp.MustCompile(`\[Parsed_showinfo.* n: *\d+ pts: *\S+ +pts_time:(\S+) .* iskey:(\d)`)

// Write processes output of ffmpeg.
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

// damage returns the errors that affect frames for which uses returns true.
func (s *scan) damage(uses func(number int, f shownFrame) bool) (d Damage) {
	for _, e := range s.errors {
		d.Errors++
		if d.first == "" {
			d.first = e.text
		}
		if e.before == 0 && unreferenced.MatchString(e.text) || d.used {
			continue
		}
		for i := e.before; i < len(s.frames); i++ { // up to a key frame that is certainly after the error
			if uses(i, s.frames[i]) {
				d.used, d.first = true, e.text
				break
			}
			if i+1 < len(s.frames) && s.frames[i+1].key && i+1 >= e.before+damageMargin {
				break
			}
		}
		// Frames that are missing because of the error would have been after the last one.
		if e.before >= len(s.frames) && len(s.frames) > 0 && uses(len(s.frames)-1, s.frames[len(s.frames)-1]) {
			d.used, d.first = true, e.text
		}
	}
	return d
}

// scanDamage decodes a file again, up to the frames that o requests, to find the positions of its errors.
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
		const second = 1 // more than damageMargin frames in most videos
		uses = func(_ int, f shownFrame) bool { return f.time >= begin-1/o.FPS && f.time < end }
		past = func(f shownFrame, _ int) bool { return f.time > end+second }
	}
	s.enough = past
	args = append(args, "-threads", "1", "-i", "file:"+path, "-map", "0:v:0", "-vf", "showinfo", "-f", "null", "-")
	child, err := process.Start(ctx, process.Command{Path: program, Args: args, Stderr: s, Stall: frameTime, AddressSpace: maxMemory})
	if err != nil {
		return Damage{}, err
	}
	err = child.Wait() // a failure is one of the errors
	if cause := context.Cause(ctx); cause != nil && !past(s.last(), len(s.frames)) {
		return Damage{}, err
	}
	return s.damage(uses), nil
}

// last returns the last frame.
func (s *scan) last() shownFrame {
	if len(s.frames) == 0 {
		return shownFrame{}
	}
	return s.frames[len(s.frames)-1]
}
