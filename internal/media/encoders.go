package media

import (
	"context"
	"fmt"
	"strings"

	"latentbeam/internal/media/h264"
)

// Encoded is a finished file.
type Encoded struct {
	Data  []byte
	Ext   string // with its dot: ".mp4", ".png"
	Codec string // "h264", "png"
	// Recon is what a player shows, compression included. It is nil where the encoder cannot tell.
	Recon *Clip
	// Width, Height and Frames are the clip's, in pixels and frames.
	Width, Height, Frames int
}

// Encoder makes a file of a clip. It is safe for concurrent use.
type Encoder interface {
	// Name is what New takes.
	Name() string
	// Version is that of a program outside of this one which makes the bytes; "" where there is none.
	Version() string
	// Encode fails on clips that do not validate or that the format cannot hold, and when ctx ends.
	Encode(ctx context.Context, c *Clip) (*Encoded, error)
}

// Options tune an encoder; zero values are the defaults.
type Options struct {
	QP     int    // h264: quantiser, 1 (best) to 51; 0 is 20
	GOP    int    // h264 and ffmpeg: frames from key frame to key frame, at most 256; 0 is 24
	CRF    int    // ffmpeg: x264's quality, 1 (best) to 51; 0 is 18
	FFmpeg string // ffmpeg: name or path of the program; empty is "ffmpeg" on PATH
}

// format is one line of the list of encoders.
type format struct {
	name string
	open func(Options) (Encoder, error)
}

// formats is the list of encoders, the default first.
var formats = []format{
	{"h264", newH264},
	{"ffmpeg", newFFmpeg},
}

// Encoders names the encoders that New knows, the default first.
func Encoders() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// New opens an encoder by name; "" is the default. Clips of one frame become lossless PNG files whatever the
// name. It fails for unknown names, impossible options and where the encoder is not installed.
func New(name string, o Options) (Encoder, error) {
	if name == "" {
		name = formats[0].name
	}
	for _, f := range formats {
		if f.name != name {
			continue
		}
		e, err := f.open(o)
		if err != nil {
			return nil, fmt.Errorf("open encoder %q: %w", name, err)
		}
		return stillOr{e}, nil
	}
	return nil, fmt.Errorf("open encoder %q: unknown, choose one of %s", name, strings.Join(Encoders(), ", "))
}

// stillOr sends clips of one frame to PNG and others to a video encoder.
type stillOr struct{ video Encoder }

func (s stillOr) Name() string { return s.video.Name() }

func (s stillOr) Version() string { return s.video.Version() }

func (s stillOr) Encode(ctx context.Context, c *Clip) (*Encoded, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("encode video: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("encode video: %w", err)
	}
	if len(c.Frames) == 1 {
		return encodePNG(c)
	}
	return s.video.Encode(ctx, c)
}

// checkGOP fills in the default and refuses what no encoder takes.
func checkGOP(gop int) (int, error) {
	if gop == 0 {
		return h264.DefaultGOP, nil
	}
	if gop < 1 || gop > h264.MaxGOP {
		return 0, fmt.Errorf("GOP of %d frames: must be 1 to %d", gop, h264.MaxGOP)
	}
	return gop, nil
}
