package media

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"latentbeam/schemas"
)

// Encoder makes a file of a clip. It is safe for concurrent use.
type Encoder interface {
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

// OptionError is what is wrong with one option.
type OptionError struct {
	Option string
	Value  int // of a number: qp, gop or crf
	Least  int
	Most   int
	Name   string   // of codec or encoder
	Known  []string // what may be in its place
}

// Error names the option, its value and what is possible.
func (e *OptionError) Error() string {
	if e.Known != nil {
		are := "there is"
		if len(e.Known) > 1 {
			are = "there are"
		}
		return fmt.Sprintf("%s %q is unknown; %s %s", e.Option, e.Name, are, strings.Join(e.Known, " and "))
	}
	return fmt.Sprintf("%s is %d: give %d to %d, or 0 for the default", e.Option, e.Value, e.Least, e.Most)
}

// within returns the value of an option, or the default where it is 0.
func within(option string, value, least, most, byDefault int) (int, error) {
	if value == 0 {
		return byDefault, nil
	}
	if value < least || value > most {
		return 0, &OptionError{Option: option, Value: value, Least: least, Most: most}
	}
	return value, nil
}

// Format is one line of the list of video formats.
type Format struct {
	Codec   string // "h264"
	Encoder string // who makes it: "embedded", or a program
	open    func(Options) (Encoder, error)
}

// formats is the list of video formats, the default first.
var formats = []Format{
	{"h264", "embedded", newH264},
	{"h264", "ffmpeg", newFFmpeg},
}

// Formats returns the formats that New opens, the default first.
func Formats() []Format { return slices.Clone(formats) }

// Codecs names the codecs of all formats.
func Codecs() []string { return names(func(f Format) (string, bool) { return f.Codec, true }) }

// Encoders names those that make a codec.
func Encoders(codec string) []string {
	return names(func(f Format) (string, bool) { return f.Encoder, f.Codec == codec })
}

// names lists what is said of the formats, each name once.
func names(of func(Format) (string, bool)) (list []string) {
	for _, f := range formats {
		if name, ok := of(f); ok && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// New opens an encoder of a codec. Clips of one frame become lossless PNG files whatever the codec. What is unknown or not
// possible of codec, encoder and options is an *OptionError; any other error says that the encoder is not installed.
func New(codec, encoder string, o Options) (Encoder, error) {
	for _, f := range formats {
		if f.Codec != codec || f.Encoder != encoder {
			continue
		}
		e, err := f.open(o)
		if err != nil {
			return nil, fmt.Errorf("open encoder %q of %s: %w", encoder, codec, err)
		}
		return stillOr{e}, nil
	}
	if list := Encoders(codec); list != nil {
		return nil, &OptionError{Option: "encoder", Name: encoder, Known: list}
	}
	return nil, &OptionError{Option: "codec", Name: codec, Known: Codecs()}
}

// stillOr sends clips of one frame to PNG and others to a video encoder.
type stillOr struct{ video Encoder }

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
