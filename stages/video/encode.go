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

// encodeOptions are the options of the stage in the YAML.
type encodeOptions struct {
	Codec   string `yaml:"codec" json:"codec"`     // codec of a format of internal/media; "": the first
	Encoder string `yaml:"encoder" json:"encoder"` // encoder for that codec
	QP      int    `yaml:"qp" json:"qp"`           // embedded: quantiser 1 to 51; 0 is the default
	CRF     int    `yaml:"crf" json:"crf"`         // ffmpeg: quality 1 to 51; 0 is the default
	GOP     int    `yaml:"gop" json:"gop"`         // frames between key frames; 0 is the default
	// Metadata writes the prompt, the seed, the model and the key into the file. They are then part of the row's key.
	Metadata bool `yaml:"metadata" json:"metadata,omitempty"`
	// Marks says which marks of synthetic media the files carry: none, or a list of iptc, aigc ({aigc: {producer: NAME}}) and
	// c2pa ({c2pa: {certificate: FILE, key: FILE, prompt: true}}). Default: iptc and aigc if the job has denoise. Marks are
	// added when files are published, as the output's marks.json says, and are not part of keys.
	Marks config.Marks `yaml:"marks" json:"-"`
}

// Encode returns the stage `encode_video`: it encodes frames to an mp4 (H.264), a single frame to a PNG, and makes a poster for
// the gallery.
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

// encoders returns the encoders of all formats.
func encoders() (list []string) {
	for _, codec := range media.Codecs() {
		list = append(list, media.Encoders(codec)...)
	}
	return list
}

func openEncode(model *stages.Model, o stages.Options) (stages.Stage, error) {
	first := media.Formats()[0]
	opts := encodeOptions{Codec: first.Codec, Encoder: first.Encoder} // default values do not change the job
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if wrong := opts.Marks.Problem(); wrong != "" {
		return nil, stages.Errorf("marks", "encode_video: marks: %s", wrong)
	}
	enc, err := media.New(opts.Codec, opts.Encoder, media.Options{QP: opts.QP, CRF: opts.CRF, GOP: opts.GOP})
	var wrong *media.OptionError
	switch {
	case errors.As(err, &wrong):
		return nil, stages.Errorf(wrong.Option, "encode_video: %w", wrong)
	case err != nil: // the encoder is not available
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
	model    string // name of the model, if files contain it
}

// Digest identifies the program that encodes; "" if it is this program, because an encoder has no weights. If files contain the
// model's name, it is part of the digest, because it changes the bytes.
func (s *encode) Digest() string {
	if s.describe {
		return s.enc.Version() + " model " + s.model
	}
	return s.enc.Version()
}

// Check returns an error for frame rates that players do not support. It does not check sizes: autoencoders produce even ones.
func (s *encode) Check(row *schemas.PromptRow) error {
	if row.FPS < schemas.MinFPS || row.FPS > schemas.MaxFPS {
		return fmt.Errorf("fps is %v: give %v to %d frames a second", row.FPS, schemas.MinFPS, schemas.MaxFPS)
	}
	return nil
}

// Need returns 0: encoding works on the host.
func (s *encode) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Capabilities lists the columns that files with metadata depend on.
func (s *encode) Capabilities() stages.Capabilities {
	if s.describe {
		return stages.Capabilities{Params: []stages.Param{stages.ParamPrompt, stages.ParamSeed}}
	}
	return stages.Capabilities{}
}

// Run encodes the clips one after another; the encoder itself is parallel.
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

// comment returns a text that says how the video was made.
func (s *encode) comment(e *stages.Element) string {
	seed := ""
	if e.Row.Seed != nil {
		seed = fmt.Sprintf("seed %d, ", *e.Row.Seed)
	}
	return fmt.Sprintf("%smodel %s, key %s", seed, s.model, e.Key)
}
