package media

import (
	"context"
	"fmt"
	"strings"

	"latentbeam/schemas"
)

// Encoder makes a file of a clip. It is safe for concurrent use.
type Encoder interface {
	// Name is what New takes.
	Name() string
	// Version is that of a program outside of this one which makes the bytes; "" where there is none.
	Version() string
	// Encode fails on clips that do not validate or that the format cannot hold, and when ctx ends.
	Encode(ctx context.Context, c *schemas.Clip) (*schemas.Encoded, error)
}

// Options tune an encoder; zero values are the defaults.
type Options struct {
	QP     int    // h264: quantiser, 1 (best) to 51; 0 is 20
	GOP    int    // h264 and ffmpeg: frames from key frame to key frame, at most 256; 0 is 24
	CRF    int    // ffmpeg: x264's quality, 1 (best) to 51; 0 is 18
	FFmpeg string // ffmpeg: name or path of the program; empty is "ffmpeg" on PATH
}

// OptionError is what is wrong with one option: qp, gop or crf.
type OptionError struct {
	Option string
	Value  int
	Least  int
	Most   int
}

// Error names the option, its value and what is possible.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%s is %d: give %d to %d, or 0 for the default", e.Option, e.Value, e.Least, e.Most)
}

// within returns the value of an option, or the default where it is 0.
func within(option string, value, least, most, byDefault int) (int, error) {
	if value == 0 {
		return byDefault, nil
	}
	if value < least || value > most {
		return 0, &OptionError{option, value, least, most}
	}
	return value, nil
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

func (s stillOr) Encode(ctx context.Context, c *schemas.Clip) (*schemas.Encoded, error) {
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
