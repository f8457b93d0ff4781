package media

import (
	"bytes"
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
	"sync/atomic"
	"time"
)

// piped is a video that an ffmpeg process decodes into a pipe, as y4m.
type piped struct {
	*y4m
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	cancel context.CancelFunc
	left   int // frames that were asked for and have not come; -1: all there are
	ended  bool
	slow   atomic.Bool // it was stopped because a frame took too long
}

// openFFmpeg starts the process. Where a rate is asked for, frames are resampled there, by the rule of
// Frames.
func openFFmpeg(ctx context.Context, path string, o SourceOptions) (Source, error) {
	name := cmp.Or(o.FFmpeg, "ffmpeg")
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s files need ffmpeg, which is not there (%w): install it (apt install ffmpeg), "+
			"or convert the file to y4m or a folder of png images", cmp.Or(filepath.Ext(path), "such"), err)
	}
	if o.Window != nil && o.FPS == 0 && o.Frames > 0 {
		o.Frames += o.Window.Start // those before it come too
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &piped{cmd: exec.CommandContext(ctx, program, readArgs(path, o)...), stderr: &bytes.Buffer{},
		cancel: cancel, left: o.Frames}
	if o.Frames == 0 {
		p.left = -1
	}
	p.cmd.Stderr = &limited{p.stderr, 4 * maxStderr}
	p.cmd.WaitDelay = killDelay
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("ffmpeg: %w", err)
	}
	limitMemory(p.cmd.Process.Pid, maxMemory)
	slow := time.AfterFunc(frameTime, p.giveUp)
	p.y4m, err = newY4M(out)
	slow.Stop()
	if err != nil {
		return nil, p.fail(err)
	}
	if err := p.makeRoom(ctx, pipedBytes+planesBytes+rgbBytes); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if w := o.Window; w != nil && o.FPS == 0 {
		if _, err := p.Skip(w.Start); err != nil {
			p.giveBack()
			return nil, err
		}
	}
	return p, nil
}

// clockSlack is how late a frame may be, in microseconds, and still count as on time: containers round their
// times to milliseconds.
const clockSlack = 2000

// demuxers are the containers that ffmpeg may take a file for. None of them opens another file: playlists and numbered
// images do, and what they name is in no key.
const demuxers = "mov,matroska,webm,avi,mpegts,mpeg,flv,gif,yuv4mpegpipe,bmp_pipe,tiff_pipe,webp_pipe"

// Limits of the process.
const (
	maxAlloc  = 1 << 30 // bytes of one block of its memory
	maxMemory = 8 << 30 // bytes of its address space, on Linux
)

// confined are the options by which ffmpeg and ffprobe open nothing but one file.
var confined = []string{"-hide_banner", "-loglevel", "error", "-protocol_whitelist", "file", "-format_whitelist", demuxers,
	"-max_alloc", strconv.Itoa(maxAlloc), "-max_pixels", strconv.Itoa(maxPixels)}

// frameTime is how long it may take for a frame; a variable for tests.
var frameTime = 5 * time.Minute

// readArgs asks for BT.601 at limited range, which is how y4m is read here, and lets ffmpeg open nothing but
// the file.
func readArgs(path string, o SourceOptions) []string {
	filter := "scale=out_color_matrix=bt601:out_range=tv:flags=bicubic+accurate_rnd+full_chroma_int"
	args := append([]string{"-nostdin"}, confined...)
	if o.FPS > 0 {
		num, den := frameRate(o.FPS)
		origin, begin := "STARTPTS", ""
		if w := o.Window; w != nil && w.Start > 0 {
			begin = fmt.Sprintf(":start_time=%.9f,setpts=PTS-STARTPTS", float64(w.Start)*float64(den)/float64(num))
			if w.Seek != 0 { // frames keep the times of the file, and the filter drops those before the window
				origin = strconv.FormatInt(w.Origin, 10)
				args = append(args, "-noaccurate_seek", "-seek_timestamp", "1", "-ss", fmt.Sprintf("%dus", w.Seek), "-copyts")
			}
		}
		filter = fmt.Sprintf("settb=AVTB,setpts=PTS-%s-%d,fps=%d/%d:round=up%s,%s", origin, clockSlack, num, den, begin,
			filter)
	} else if o.Window != nil { // one frame for each, however long it is shown
		filter = "setpts=N/(FRAME_RATE*TB)," + filter
	}
	args = append(args, "-i", "file:"+path, "-map", "0:v:0", "-vf", filter, "-pix_fmt", "yuv444p")
	if o.Frames > 0 {
		args = append(args, "-frames:v", strconv.Itoa(o.Frames))
	}
	return append(args, "-f", "yuv4mpegpipe", "pipe:1")
}

// Next gives the next frame. That ffmpeg failed shows where its frames end too early.
func (p *piped) Next(rgb []byte) error {
	if p.left == 0 {
		return io.EOF
	}
	slow := time.AfterFunc(frameTime, p.giveUp)
	err := p.y4m.Next(rgb)
	slow.Stop()
	switch {
	case err == nil && p.left > 0:
		p.left--
	case err != nil:
		return p.fail(err)
	}
	return err
}

// Skip passes over frames.
func (p *piped) Skip(n int) (int, error) {
	slow := time.AfterFunc(frameTime, p.giveUp)
	defer slow.Stop()
	passed, err := p.y4m.Skip(n)
	if p.left > 0 {
		p.left -= passed
	}
	if err != nil {
		err = p.fail(err)
	}
	return passed, err
}

// fail waits for the process and returns what it said, or err.
func (p *piped) fail(err error) error {
	wait := p.wait()
	if p.slow.Load() {
		return fmt.Errorf("ffmpeg: no frame within %v", frameTime)
	}
	if wait != nil && errors.Is(err, io.EOF) {
		err = fmt.Errorf("ffmpeg: %w", wait)
	}
	return saidBy("ffmpeg", p.stderr.String(), err)
}

// saidBy is what a program said of its end, or err.
func saidBy(program, stderr string, err error) error {
	if strings.Contains(stderr, "Format not on whitelist") {
		return errors.New(program + ": not a video in one file: a playlist or a list of images is not followed; " +
			"give a mov, mp4, mkv, webm, avi, ts, mpg, flv or gif file, or a folder of png images")
	}
	if said := lastOf(address.ReplaceAllString(stderr, "")); said != "" {
		return fmt.Errorf("%s: %s", program, said)
	}
	return err
}

// giveUp stops a process that makes no progress.
func (p *piped) giveUp() {
	p.slow.Store(true)
	p.cancel()
}

// address is what differs between two runs in what ffmpeg says.
var address = regexp.MustCompile(` @ 0x[0-9a-fA-F]+`)

// wait ends the process once.
func (p *piped) wait() error {
	if p.ended {
		return nil
	}
	p.ended = true
	defer p.cancel()
	return p.cmd.Wait()
}

// Close stops the process where it has not ended.
func (p *piped) Close() error {
	defer p.giveBack()
	p.cancel()
	_ = p.wait() // it was killed
	return nil
}

// limited drops what goes beyond a number of bytes.
type limited struct {
	into *bytes.Buffer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.into.Write(b[:n])
	l.left -= n
	return len(b), nil
}
