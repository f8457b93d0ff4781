package clip

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"latentbeam/internal/storage/source"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// options are the options of the stage in the YAML.
type options struct {
	DType string `yaml:"dtype" json:"dtype,omitempty"` // of weights and activations: fp32, the default, or bf16
}

// Spec returns the stage `embed_image`: it encodes the images in a row's reference to the embedding that image to video of Wan
// 2.1 attends to. Rows without a reference do not have the stage in their keys.
func Spec() stages.Spec {
	return stages.Spec{
		Name:    "embed_image",
		Doc:     "CLIP: a row's reference images to the embedding that image to video of Wan 2.1 attends to; dtype: fp32 or bf16",
		Version: 1,
		Params:  []stages.Param{stages.ParamReference},
		Only:    stages.ParamReference,
		New:     open,
	}
}

// component is the directory of the encoder in a model.
const component = "image_encoder"

func open(m *stages.Model, o stages.Options) (stages.Stage, error) {
	var opts options
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	dtype, ok := map[string]kernels.DType{"": kernels.F32, "fp32": kernels.F32, "bf16": kernels.BF16}[opts.DType]
	if !ok {
		return nil, stages.Errorf("dtype", "embed_image: dtype is %q: give fp32 or bf16", opts.DType)
	}
	c, err := weights.OpenComponent(m, component, ParseConfig, Load)
	if err != nil {
		return nil, err
	}
	c.Config.DType = dtype
	p, err := openProcessor(m, c.Config.ImageSize)
	if err != nil {
		return nil, err
	}
	said, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("embed_image: %w", err)
	}
	digest := sha256.Sum256(append([]byte(c.Digest()), said...))
	return &stage{c, p, hex.EncodeToString(digest[:])}, nil
}

// stage is the stage `embed_image`.
type stage struct {
	*weights.Component[Config, Encoder]
	processor processor
	digest    string
}

// Digest identifies the encoder and the preparation of images by content.
func (s *stage) Digest() string { return s.digest }

// Capabilities says what the stage can do beyond Run.
func (s *stage) Capabilities() stages.Capabilities {
	return stages.Capabilities{Loading: s.Loading()}
}

// Check accepts every row: the denoiser limits the number of images.
func (s *stage) Check(*schemas.PromptRow) error { return nil }

// Need returns the memory for one image; the batch does not matter.
func (s *stage) Need(row *schemas.PromptRow, _ int) (int64, error) {
	if row.Reference == "" {
		return 0, nil
	}
	e, err := Load(s.Config, weights.ShapesOnly())
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(func(be kernels.Backend) error {
		e.Encode(be, make([]float32, 3*e.ImageSize*e.ImageSize))
		return nil
	})
}

// Run embeds the images of the elements one after another. An element whose file cannot be read fails.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		if e.Row.Reference == "" {
			continue
		}
		encoder, err := s.On(dev)
		if err != nil {
			return err
		}
		paths := strings.Split(e.Row.Reference, ";")
		all := stages.NewArray(len(paths)*s.Config.Tokens(), s.Config.Hidden)
		for i, path := range paths {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			pixels, bad, err := s.read(ctx, path)
			if err != nil {
				return err
			}
			if bad != nil {
				e.Fail("embed_image", fault.Row(fmt.Errorf("reference: %w", bad)))
				break
			}
			n := len(all.Data) / len(paths)
			if err := encode(dev, encoder, all.Data[i*n:][:n], pixels); err != nil {
				return err
			}
		}
		if e.Failed == nil {
			e.ImageEmbedding = all
		}
	}
	return nil
}

// read returns the pixels of a file. bad is set if the file itself is the reason of the error.
func (s *stage) read(ctx context.Context, path string) (pixels []float32, bad, err error) {
	file, err := source.Media(ctx, path)
	if err != nil {
		if fault.ClassOf(err) == fault.ClassRow {
			return nil, err, nil
		}
		return nil, nil, err
	}
	defer file.Release()
	pixels, bad = s.processor.pixels(ctx, file.Path)
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	return pixels, bad, nil
}

// encode writes the embedding of an image to dst.
func encode(dev kernels.Backend, e *Encoder, dst, pixels []float32) error {
	defer dev.Scope()()
	return dev.Download(dst, e.Encode(dev, pixels))
}
