package video

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/media"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// encodeOptions is the stage's map in the YAML.
type encodeOptions struct {
	Codec   string `yaml:"codec" json:"codec"`     // of a format of internal/media; "" is the first
	Encoder string `yaml:"encoder" json:"encoder"` // of that codec
	QP      int    `yaml:"qp" json:"qp"`           // embedded: quantiser 1 to 51; 0 is the default
	CRF     int    `yaml:"crf" json:"crf"`         // ffmpeg: quality 1 to 51; 0 is the default
	GOP     int    `yaml:"gop" json:"gop"`         // frames between key frames; 0 is the default
	// Metadata writes the prompt, the seed, the model and the key into the file. Then they are in the row's key.
	Metadata bool `yaml:"metadata" json:"metadata,omitempty"`
	// Marks says which marks of synthetic media the files carry: none, or a list of iptc, aigc ({aigc: {producer: NAME}}) and c2pa
	// ({c2pa: {certificate: FILE, key: FILE, prompt: true}}); not given: iptc and aigc where the job has denoise. They are put on at publishing, as the output's marks.json says, and are in no key.
	Marks config.Marks `yaml:"marks" json:"-"`
}

// Encode returns the stage `encode_video`: frames become an mp4 (H.264), one frame a PNG, and a poster
// is made for the gallery.
func Encode() stages.Spec {
	return stages.Spec{
		Name: "encode_video",
		Doc: "frames to a video, one frame to PNG; codec: " + strings.Join(media.Codecs(), " or ") + ", encoder: " +
			strings.Join(encoders(), " or ") + ", qp, crf, gop, metadata, marks",
		In:      stages.KindFrames,
		Out:     stages.KindVideo,
		Version: 1,
		Params:  []stages.Param{stages.ParamFPS},
		New:     openEncode,
	}
}

// encoders names those of all formats.
func encoders() (list []string) {
	for _, codec := range media.Codecs() {
		list = append(list, media.Encoders(codec)...)
	}
	return list
}

func openEncode(model *stages.Model, o stages.Options) (stages.Stage, error) {
	first := media.Formats()[0]
	opts := encodeOptions{Codec: first.Codec, Encoder: first.Encoder} // said or not, the same job
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if wrong := opts.Marks.Wrong(); wrong != "" {
		return nil, stages.Errorf("marks", "encode_video: marks: %s", wrong)
	}
	enc, err := media.New(opts.Codec, opts.Encoder, media.Options{QP: opts.QP, CRF: opts.CRF, GOP: opts.GOP})
	var wrong *media.OptionError
	switch {
	case errors.As(err, &wrong):
		return nil, stages.Errorf(wrong.Option, "encode_video: %w", wrong)
	case err != nil: // the encoder is not there
		return nil, stages.Errorf("encoder", "encode_video: %w", err)
	}
	s := &encode{enc: enc}
	if s.describe = opts.Metadata; s.describe && model != nil {
		s.model = model.Name
	}
	return s, nil
}

type encode struct {
	enc      media.Encoder
	describe bool
	model    string // its name, where files say it
}

// Digest names the program that encodes; "" where it is this one: an encoder has no weights. The name of a model that is
// written into files is part of it, for it is part of the bytes.
func (s *encode) Digest() string {
	if s.describe {
		return s.enc.Version() + " model " + s.model
	}
	return s.enc.Version()
}

// Check refuses frame rates that players do not know. Sizes are the autoencoder's matter: what it makes of an
// odd one is even.
func (s *encode) Check(row *schemas.PromptRow) error {
	if row.FPS < schemas.MinFPS || row.FPS > schemas.MaxFPS {
		return fmt.Errorf("fps is %v: give %v to %d frames a second", row.FPS, schemas.MinFPS, schemas.MaxFPS)
	}
	return nil
}

// Need is nothing: encoding works on the host.
func (s *encode) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Capabilities are none, but files with metadata depend on what they say.
func (s *encode) Capabilities() stages.Capabilities {
	if s.describe {
		return stages.Capabilities{Params: []stages.Param{stages.ParamPrompt, stages.ParamSeed}}
	}
	return stages.Capabilities{}
}

// Run encodes the clips one after the other; the encoder is parallel inside.
func (s *encode) Run(ctx context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		clip := *e.Frames
		clip.FPS = e.Row.FPS
		video, err := s.enc.Encode(ctx, &clip)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			e.Fail("encode_video", fault.Row(err))
			continue
		}
		if s.describe {
			if err := media.Describe(video, e.Row.Prompt, s.comment(e)); err != nil {
				e.Fail("encode_video", fault.Row(err))
				continue
			}
		}
		poster, err := media.Poster(clip.Middle(), clip.Width, clip.Height)
		if err != nil {
			e.Fail("encode_video", fault.Row(err))
			continue
		}
		video.Width, video.Height, video.Frames = clip.Width, clip.Height, len(clip.Frames)
		video.Markable = true
		e.Video, e.Poster = video, poster
	}
	return nil
}

// comment says what made the video.
func (s *encode) comment(e *stages.Element) string {
	seed := ""
	if e.Row.Seed != nil {
		seed = fmt.Sprintf("seed %d, ", *e.Row.Seed)
	}
	return fmt.Sprintf("%smodel %s, key %s", seed, s.model, e.Key)
}
