package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"latentbeam/internal/system/process"
	"latentbeam/schemas"
)

// piped is a video that an ffmpeg process decodes to a pipe, as y4m.
type piped struct {
	*y4m
	child  *process.Child
	stderr *process.Head
	left   int // requested frames that have not arrived; -1: all frames
	damage Damage
	// scan finds the positions of errors.
	scan func() (Damage, error)
	keep bool // frames with errors are accepted
}

// openFFmpeg starts the process. If a frame rate is requested, ffmpeg resamples the frames by the rule of Frames. Interlaced
// video is deinterlaced; if the file does not say that it is interlaced, its first frame does.
func openFFmpeg(ctx context.Context, path string, o SourceOptions, look Look) (Source, error) {
	name := cmp.Or(o.FFmpeg, "ffmpeg")
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, &missingError{fmt.Errorf("%s files need ffmpeg, which is not there (%w): install it (apt install ffmpeg), "+
			"or convert the file to y4m or a folder of png images", cmp.Or(filepath.Ext(path), "such"), err)}
	}
	asked := o
	if o.Window != nil && o.FPS == 0 && o.Frames > 0 {
		o.Frames += o.Window.Start // the frames before the window are also decoded
	}
	p, err := startFFmpeg(ctx, program, path, o, look)
	if errors.Is(err, errInterlaced) && !look.interlaced {
		look.interlaced = true
		look.Tell(path)
		p, err = startFFmpeg(ctx, program, path, o, look)
	}
	if err != nil {
		return nil, err
	}
	p.info.Aspect, p.info.Transfer, p.keep = look.aspect, look.transfer, o.KeepErrors
	p.scan = func() (Damage, error) { return scanDamage(ctx, program, path, asked, look.interlaced) }
	planes := planesBytes
	if p.deep {
		planes *= 2
	}
	if err := p.makeRoom(ctx, pipedBytes+planes+rgbBytes); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if w := o.Window; w != nil && o.FPS == 0 {
		if _, err := p.Skip(w.Start); err != nil {
			p.freeMemory()
			return nil, err
		}
	}
	return p, nil
}

// ErrNoFFmpeg says that ffmpeg is not installed.
var ErrNoFFmpeg = errors.New("there is no ffmpeg")

// missingError says how to install it.
type missingError struct{ error }

// Is reports whether target is ErrNoFFmpeg.
func (*missingError) Is(target error) bool { return target == ErrNoFFmpeg }

// Unwrap returns the cause.
func (e *missingError) Unwrap() error { return e.error }

// startFFmpeg starts the process and reads the header of its output.
func startFFmpeg(ctx context.Context, program, path string, o SourceOptions, look Look) (*piped, error) {
	p := &piped{stderr: &process.Head{Most: 4 * maxStderr}, left: o.Frames}
	if o.Frames == 0 {
		p.left = -1
	}
	var err error
	p.child, err = process.Start(ctx, process.Command{Path: program, Args: readArgs(path, o, look), Stderr: p.stderr, Pipe: true,
		Stall: frameTime, AddressSpace: maxMemory})
	if err != nil {
		return nil, fmt.Errorf("ffmpeg: %w", err)
	}
	p.y4m, err = newY4M(io.NopCloser(p.child))
	if err == nil && p.deep != look.toneMapped(o) {
		err = errors.New("ffmpeg writes samples with another bit depth than requested")
	}
	if err != nil {
		return nil, p.fail(err)
	}
	if p.deep {
		p.tone = toneMappers[look.transfer]()
	}
	return p, nil
}

// clockSlack is how late a frame may be, in microseconds, and still count as on time: containers round times to milliseconds.
const clockSlack = 2000

// demuxers are the containers that ffmpeg may use. None of them opens another file. Playlists and numbered images do, and the
// content of those files would not be part of keys.
const demuxers = "mov,matroska,webm,avi,mpegts,mpeg,flv,gif,yuv4mpegpipe,bmp_pipe,tiff_pipe,webp_pipe"

// Limits of the process.
const (
	maxAlloc  = 1 << 30 // largest block of its memory in bytes
	maxMemory = 8 << 30 // its address space in bytes, on Linux
)

// confined are options that prevent ffmpeg and ffprobe from opening other files.
var confined = []string{"-hide_banner", "-loglevel", "error", "-protocol_whitelist", "file", "-format_whitelist", demuxers,
	"-max_alloc", strconv.Itoa(maxAlloc), "-max_pixels", strconv.Itoa(maxPixels)}

// frameTime is how long ffmpeg and ffprobe may make no progress; a variable for tests.
var frameTime = 5 * time.Minute

// toneMapped reports whether a file is converted to standard dynamic range.
func (l Look) toneMapped(o SourceOptions) bool {
	return l.transfer != "" && o.HDR == schemas.HDRTonemap
}

// readArgs returns arguments that request BT.601 with limited range, which is how y4m is read here, or the input of a
// toneMapper, and that prevent ffmpeg from opening other files.
func readArgs(path string, o SourceOptions, look Look) []string {
	matrix, pixels := "bt601", []string{"-pix_fmt", "yuv444p"}
	if look.toneMapped(o) {
		matrix, pixels = "bt2020", []string{"-pix_fmt", "yuv444p16le", "-strict", "-1"}
	}
	interlaced := look.interlaced
	filter, fields := "scale=out_color_matrix="+matrix+":out_range=tv:flags=bicubic+accurate_rnd+full_chroma_int", ""
	args := append([]string{"-nostdin"}, confined...)
	if interlaced { // a frame depends on earlier ones, so all are decoded
		fields = "bwdif=mode=send_frame:parity=auto:deint=interlaced,"
	}
	if o.FPS > 0 {
		num, den := frameRate(o.FPS)
		origin, begin := "STARTPTS", ""
		if w := o.Window; w != nil && w.Start > 0 {
			begin = fmt.Sprintf(":start_time=%.9f,setpts=PTS-STARTPTS", float64(w.Start)*float64(den)/float64(num))
			if w.Seek != 0 && !interlaced { // frames keep the file's times, and the filter drops frames before the window
				origin = strconv.FormatInt(w.Origin, 10)
				args = append(args, "-noaccurate_seek", "-seek_timestamp", "1", "-ss", fmt.Sprintf("%dus", w.Seek), "-copyts")
			}
		}
		filter = fmt.Sprintf("settb=AVTB,setpts=PTS-%s-%d,fps=%d/%d:round=up%s,%s", origin, clockSlack, num, den, begin,
			filter)
	} else if o.Window != nil { // each frame once, however long it is shown
		filter = "setpts=N/(FRAME_RATE*TB)," + filter
	}
	if o.AsShown && !look.toneMapped(o) { // the first format that loses nothing
		filter, pixels = filter+",format=yuv420p|yuv422p|yuv444p", nil
	}
	args = append(args, "-i", "file:"+path, "-map", "0:v:0", "-vf", fields+filter)
	args = append(args, pixels...)
	if o.Frames > 0 {
		args = append(args, "-frames:v", strconv.Itoa(o.Frames))
	}
	return append(args, "-f", "yuv4mpegpipe", "pipe:1")
}

// Next returns the next frame. If ffmpeg fails, its frames end too early.
func (p *piped) Next(rgb []byte) error {
	if p.left == 0 {
		return io.EOF
	}
	err := p.y4m.Next(rgb)
	switch {
	case err == nil && p.left > 0:
		if p.left--; p.left == 0 {
			_ = p.child.Wait() // all frames have arrived; now its error output is complete
			err = p.finish()
		}
	case err != nil:
		return p.fail(err)
	}
	return err
}

// Skip skips frames.
func (p *piped) Skip(n int) (int, error) {
	passed, err := p.y4m.Skip(n)
	if p.left > 0 {
		p.left -= passed
	}
	if err != nil {
		err = p.fail(err)
	}
	return passed, err
}

// fail stops the process after an error of the y4m reader. If ffmpeg's output has ended, its error output gives the cause.
// Otherwise the reader has refused the output, and the rest would not be read.
func (p *piped) fail(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, errCutOff) {
		return errors.Join(err, p.child.Stop())
	}
	switch wait := p.child.Wait(); {
	case errors.Is(wait, process.ErrStalled):
		return fmt.Errorf("ffmpeg: %w", wait)
	case wait != nil && errors.Is(err, io.EOF):
		err = fmt.Errorf("ffmpeg: %w", wait)
	case errors.Is(err, io.EOF) && p.left < 0: // all frames were requested
		if damaged := p.finish(); damaged != nil {
			return damaged
		}
		return err
	}
	return lastOutput("ffmpeg", p.stderr.String(), err)
}

// finish checks for errors after all requested frames have arrived.
func (p *piped) finish() (err error) {
	if len(decodeErrors(p.stderr.String())) == 0 {
		return nil
	}
	if p.damage, err = p.scan(); err != nil || !p.damage.used || p.keep {
		return err
	}
	return damagedError(p.damage)
}

// damagedError returns an error that says that requested frames may be damaged.
func damagedError(d Damage) error {
	errs := "an error"
	if d.Errors > 1 {
		errs = fmt.Sprintf("%d errors", d.Errors)
	}
	return fmt.Errorf("the video is damaged: ffmpeg reports %s, also in frames that are used (%s); replace the file, or set input: "+
		"{decode_errors: keep} to use these frames and add the reading decode_errors, for which guard can set a limit", errs, d.first)
}

// lastOutput returns the last error output of a program, or err.
func lastOutput(program, stderr string, err error) error {
	if strings.Contains(stderr, "Format not on whitelist") {
		return errors.New(program + ": not a video in one file: a playlist or a list of images is not followed; " +
			"give a mov, mp4, mkv, webm, avi, ts, mpg, flv or gif file, or a folder of png images")
	}
	if said := lastOf(address.ReplaceAllString(stderr, "")); said != "" {
		return fmt.Errorf("%s: %s", program, said)
	}
	return err
}

// address matches the part of ffmpeg's messages that differs between runs.
var address = regexp.MustCompile(` @ 0x[0-9a-fA-F]+`)

// Close stops the process if it is still running.
func (p *piped) Close() error {
	defer p.freeMemory()
	return p.child.Stop()
}
