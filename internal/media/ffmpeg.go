package media

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"latentbeam/internal/media/h264"
	"latentbeam/internal/system"
	"latentbeam/internal/system/process"
	"latentbeam/schemas"
)

const (
	defaultCRF   = 18
	maxCRF       = 51
	probeTimeout = 2 * time.Minute
	// maxStderr limits how much of ffmpeg's output goes into an error.
	maxStderr = 2000
	// x264Threads is fixed, because x264's output depends on it.
	x264Threads = 2
)

// x264 encodes with libx264 in an ffmpeg process. It needs about half the bytes of the embedded encoder for the same quality.
type x264 struct {
	program  string
	version  string
	gop, crf int
}

// newFFmpeg finds the program and encodes one frame, because an encoder that is listed may not work.
func newFFmpeg(o Options) (Encoder, error) {
	gop, err := within("gop", o.GOP, 1, h264.MaxGOP, h264.DefaultGOP)
	if err != nil {
		return nil, err
	}
	crf, err := within("crf", o.CRF, 1, maxCRF, defaultCRF)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(o.FFmpeg, "ffmpeg")
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: install it (apt install ffmpeg) or choose the built-in encoder h264", err)
	}
	p := x264{program: program, gop: gop, crf: crf}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	black := &schemas.Clip{Width: 64, Height: 64, FPS: 8, Frames: [][]byte{make([]byte, 64*64*3)}}
	if _, err := p.Encode(ctx, black); err != nil {
		return nil, fmt.Errorf("trial encode: %w; the built-in encoder h264 needs no ffmpeg", err)
	}
	p.version, err = programVersion(program)
	return p, err
}

func (p x264) Version() string { return p.version }

// Encode pipes raw frames to ffmpeg. The file is written to a temporary directory, because ffmpeg must seek to move the index
// to the front. Recon is nil, because the decoded frames are not known.
func (p x264) Encode(ctx context.Context, c *schemas.Clip) (*schemas.Encoded, error) {
	if c.Width%2 != 0 || c.Height%2 != 0 {
		return nil, fmt.Errorf("encode video: size %dx%d: 4:2:0 video needs even sides, %dx%d for instance",
			c.Width, c.Height, c.Width&^1, c.Height&^1)
	}
	dir, err := system.TempDir(system.FFmpeg)
	if err != nil {
		return nil, fmt.Errorf("encode video: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "clip.mp4")

	readers := make([]io.Reader, len(c.Frames))
	for i, f := range c.Frames {
		readers[i] = bytes.NewReader(f)
	}
	stderr := &process.Head{Most: 4 * maxStderr}
	child, err := process.Start(ctx, process.Command{Path: p.program, Args: p.args(c, file), Stdin: io.MultiReader(readers...),
		Stderr: stderr, Stall: frameTime})
	if err == nil {
		err = child.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("encode video: ffmpeg on %d frames of %dx%d: %w: %s",
			len(c.Frames), c.Width, c.Height, err, lastOf(stderr.String()))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("encode video: read the output of ffmpeg: %w", err)
	}
	return &schemas.Encoded{Data: data, Ext: ".mp4", Codec: "h264"}, nil
}

// args requests BT.601 explicitly and tags it: without the scale filter the tags would not change the data. bitexact omits
// dates and versions.
func (p x264) args(c *schemas.Clip, file string) []string {
	num, den := frameRate(c.FPS)
	return []string{
		"-nostdin", "-hide_banner", "-loglevel", "error",
		"-f", "rawvideo", "-pix_fmt", "rgb24",
		"-video_size", fmt.Sprintf("%dx%d", c.Width, c.Height),
		"-framerate", fmt.Sprintf("%d/%d", num, den),
		"-i", "pipe:0",
		"-vf", "scale=out_color_matrix=bt601:out_range=tv:flags=bicubic+accurate_rnd+full_chroma_int",
		"-c:v", "libx264", "-preset", "medium", "-crf", strconv.Itoa(p.crf), "-g", strconv.Itoa(p.gop),
		"-threads", strconv.Itoa(x264Threads), "-pix_fmt", "yuv420p",
		"-colorspace", "smpte170m", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv",
		"-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1",
		"-movflags", "+faststart", "-y", file,
	}
}

func lastOf(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > maxStderr {
		s = "..." + s[len(s)-maxStderr:]
	}
	return s
}
