package vae

import (
	"context"
	"fmt"
	"strings"

	"latentbeam/internal/media"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// imageOptions are the options of encode_image in the YAML.
type imageOptions struct {
	// Frames says what is encoded. first: only the image. all: a clip with the row's num_frames that starts with the image,
	// ends with the second image if there are two, and is grey in between.
	Frames string `yaml:"frames" json:"frames"`
	// MicroBatchSize is the number of frames that are encoded at a time. It limits memory and does not change values.
	MicroBatchSize int    `yaml:"micro_batch_size" json:"-"`
	DType          string `yaml:"dtype" json:"dtype,omitempty"` // of weights and activations: fp32, bf16 or fp16
}

// Image returns the stage `encode_image`: it encodes the image in a row's reference to the latents that Wan's denoisers are
// conditioned on, the mean of the posterior. From a video it takes the first frame. Images are resized to fill the row's size
// and cropped. Rows without a reference do not have the stage in their keys.
func Image() stages.Spec {
	return stages.Spec{
		Name: "encode_image",
		Doc: "autoencoder: a row's reference image to latents that image to video is conditioned on; " +
			"frames: first, or all for models that take a whole clip; micro_batch_size, dtype: fp32 or bf16",
		Version:  1,
		Readings: []string{schemas.ReadingSourceMarks},
		Params:   []stages.Param{stages.ParamReference, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames},
		Only:     stages.ParamReference,
		New:      openImage,
	}
}

func openImage(m *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := imageOptions{MicroBatchSize: defaultMicroBatch, Frames: "first"}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if opts.Frames != "first" && opts.Frames != "all" {
		return nil, stages.Errorf("frames", "encode_image: frames is %q: give first or all", opts.Frames)
	}
	c, err := openComponent(m, "encode_image", opts.MicroBatchSize, opts.DType)
	if err != nil {
		return nil, err
	}
	return &imageStage{c, opts.MicroBatchSize, opts.Frames == "all"}, nil
}

// imageStage is the stage `encode_image`.
type imageStage struct {
	*component
	micro int
	all   bool // encode a whole clip, not only the image
}

// Capabilities says what the stage can do beyond Run.
func (s *imageStage) Capabilities() stages.Capabilities {
	return stages.Capabilities{Loading: s.Loading()}
}

// frames returns how many frames of a row are encoded.
func (s *imageStage) frames(row *schemas.PromptRow) int {
	if s.all {
		return row.NumFrames
	}
	return 1
}

// Check returns an error for sizes that the autoencoder cannot encode and for too many images.
func (s *imageStage) Check(row *schemas.PromptRow) error {
	if row.Reference == "" {
		return nil
	}
	n, most := strings.Count(row.Reference, ";")+1, 1
	if s.all {
		most = min(2, row.NumFrames)
	}
	if n > most {
		return fmt.Errorf("reference has %d images: give 1, or with frames: all and more than one frame 2, the first and the "+
			"last frame", n)
	}
	_, err := s.Config.LatentShape(s.frames(row), row.Height, row.Width)
	return err
}

// Need returns the memory for the frames that are encoded at a time, and for the latents of all elements on the host.
func (s *imageStage) Need(row *schemas.PromptRow, n int) (int64, error) {
	if row.Reference == "" {
		return 0, nil
	}
	frames := s.frames(row)
	encode, err := s.Config.EncodeBytes(frames, row.Height, row.Width, s.micro)
	if err != nil {
		return 0, err
	}
	shape, err := s.Config.LatentShape(frames, row.Height, row.Width)
	if err != nil {
		return 0, err
	}
	return encode + 4*int64(shape[0]*shape[1])*int64(shape[2]*shape[3])*int64(n), nil
}

// Run encodes the images of the elements one after another. An element whose file cannot be read fails.
func (s *imageStage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return encodeReferences(ctx, batch, "encode_image", func(row *schemas.PromptRow) ([]*stages.Array, error) {
		z, err := s.encode(ctx, dev, row)
		return []*stages.Array{z}, err
	})
}

// encode returns the latents of a row's images.
func (s *imageStage) encode(ctx context.Context, dev kernels.Backend, row *schemas.PromptRow) (*stages.Array, error) {
	model, err := s.On(dev)
	if err != nil {
		return nil, err
	}
	n, size := s.frames(row), row.Height*row.Width*3
	given := map[int][]float32{} // by frame number
	for i, path := range strings.Split(row.Reference, ";") {
		pixels := make([]float32, size)
		if err := firstFrame(ctx, pixels, path, row); err != nil {
			return nil, err
		}
		given[i*(n-1)] = pixels
	}
	clip := Video{Frames: n, Height: row.Height, Width: row.Width, Pixels: frameByFrame(func(dst []float32, i int) error {
		clear(dst[copy(dst, given[i]):])
		return nil
	})}
	raw, err := model.Encode(dev, clip, s.micro, nil)
	if err != nil {
		return nil, err
	}
	return model.ForDenoiser(dev, raw)
}

// firstFrame fills dst (height, width, 3) with the first frame of a file, resized to the size of a row, in [-1, 1].
func firstFrame(ctx context.Context, dst []float32, path string, row *schemas.PromptRow) error {
	file, err := LocalFootage(ctx, path)
	if err != nil {
		return err
	}
	defer file.Release()
	frames, err := media.OpenFrames(ctx, file.Path, 1, 0, row.Height, row.Width, media.RulesOf(row))
	if err != nil {
		return &FootageError{Err: fmt.Errorf("reference: %w", err)}
	}
	defer frames.Close()
	if err := frames.At(dst, 0); err != nil {
		return &FootageError{Err: fmt.Errorf("reference: read %s: %w", path, err)}
	}
	return nil
}
