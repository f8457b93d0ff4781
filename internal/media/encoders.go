package media

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"latentbeam/schemas"
)

// Encoder encodes a clip to a file. It is safe for concurrent use.
type Encoder interface {
	// Version returns the version of an external program that makes the bytes; "" if there is none.
	Version() string
	// Encode returns an error for invalid clips, for clips that the format cannot store, and when ctx ends.
	Encode(ctx context.Context, c *schemas.Clip) (*schemas.Encoded, error)
}

// Options for an encoder; a zero value means the default.
type Options struct {
	QP     int    // h264: quantiser from 1 (best) to 51; 0 means 20
	GOP    int    // h264 and ffmpeg: frames between key frames, at most 256; 0 means 24
	CRF    int    // ffmpeg: x264's quality from 1 (best) to 51; 0 means 18
	FFmpeg string // ffmpeg: name or path of the program; empty is "ffmpeg" on PATH
}

// OptionError describes a wrong option.
type OptionError struct {
	Option string
	Value  int // value of a number: qp, gop or crf
	Least  int
	Most   int
	Name   string   // value of codec or encoder
	Known  []string // the allowed values
}

// Error names the option, its value and the allowed values.
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

// within returns the value of an option, or the default if it is 0.
func within(option string, value, least, most, byDefault int) (int, error) {
	if value == 0 {
		return byDefault, nil
	}
	if value < least || value > most {
		return 0, &OptionError{Option: option, Value: value, Least: least, Most: most}
	}
	return value, nil
}

// Format is one entry of the list of video formats.
type Format struct {
	Codec   string // "h264"
	Encoder string // "embedded", or the name of a program
	open    func(Options) (Encoder, error)
}

// formats is the list of video formats; the first is the default.
var formats = []Format{
	{"h264", "embedded", newH264},
	{"h264", "ffmpeg", newFFmpeg},
}

// Formats returns the formats that New supports; the first is the default.
func Formats() []Format { return slices.Clone(formats) }

// Codecs returns the codecs of all formats.
func Codecs() []string { return names(func(f Format) (string, bool) { return f.Codec, true }) }

// Encoders returns the encoders for a codec.
func Encoders(codec string) []string {
	return names(func(f Format) (string, bool) { return f.Encoder, f.Codec == codec })
}

// names returns the selected names of the formats, without duplicates.
func names(of func(Format) (string, bool)) (list []string) {
	for _, f := range formats {
		if name, ok := of(f); ok && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// New returns an encoder for a codec. Clips with one frame become lossless PNG files, whatever the codec. An unknown or
// impossible codec, encoder or option is an *OptionError; any other error means that the encoder is not installed.
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

// stillOr encodes clips with one frame as PNG and other clips with a video encoder.
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
