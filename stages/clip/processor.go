package clip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"latentbeam/internal/media"
	"latentbeam/stages"
)

// processor says how images are prepared: a preprocessor_config.json of CLIPImageProcessor.
type processor struct {
	Type string `json:"image_processor_type"`
	Size struct {
		ShortestEdge int `json:"shortest_edge"`
	} `json:"size"`
	Crop struct {
		Height int `json:"height"`
		Width  int `json:"width"`
	} `json:"crop_size"`
	Mean        [3]float64 `json:"image_mean"`
	Std         [3]float64 `json:"image_std"`
	Resample    int        `json:"resample"`
	Rescale     float64    `json:"rescale_factor"`
	DoResize    bool       `json:"do_resize"`
	DoCrop      bool       `json:"do_center_crop"`
	DoRescale   bool       `json:"do_rescale"`
	DoNormalize bool       `json:"do_normalize"`
}

// bicubic is PIL's number for the filter.
const bicubic = 3

// openProcessor reads image_processor/preprocessor_config.json, if it exists, and returns an error for unsupported settings.
func openProcessor(m *stages.Model, size int) (processor, error) {
	p := processor{Type: "CLIPImageProcessor", Mean: [3]float64{0.48145466, 0.4578275, 0.40821073},
		Std: [3]float64{0.26862954, 0.26130258, 0.27577711}, Resample: bicubic, Rescale: 1.0 / 255,
		DoResize: true, DoCrop: true, DoRescale: true, DoNormalize: true}
	p.Size.ShortestEdge, p.Crop.Height, p.Crop.Width = size, size, size
	const name = "image_processor/preprocessor_config.json"
	data, err := m.ReadFile(name)
	if err == nil {
		if err = json.Unmarshal(data, &p); err != nil {
			return p, fmt.Errorf("parse %s: %w", name, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	switch {
	case p.Type != "CLIPImageProcessor" && p.Type != "CLIPImageProcessorFast" && p.Type != "CLIPImageProcessorPil":
		err = fmt.Errorf("image_processor_type is %q, only CLIPImageProcessor is supported", p.Type)
	case !p.DoResize || !p.DoCrop || !p.DoRescale || !p.DoNormalize:
		err = errors.New("do_resize, do_center_crop, do_rescale and do_normalize have to be true")
	case p.Resample != bicubic:
		err = fmt.Errorf("resample is %d, only %d (bicubic) is supported", p.Resample, bicubic)
	case p.Crop.Height != size || p.Crop.Width != size || p.Size.ShortestEdge < size:
		err = fmt.Errorf("size is %d and crop_size %dx%d, the encoder takes %d", p.Size.ShortestEdge, p.Crop.Height, p.Crop.Width, size)
	case min(p.Std[0], p.Std[1], p.Std[2]) <= 0:
		err = fmt.Errorf("image_std is %v: give numbers above 0", p.Std)
	default:
		return p, nil
	}
	return p, fmt.Errorf("%s: %w", name, err)
}

// pixels returns the first frame of a file, prepared for the encoder: (size, size, 3).
func (p processor) pixels(ctx context.Context, path string) ([]float32, error) {
	rgb, err := media.Square(ctx, path, p.Size.ShortestEdge, p.Crop.Height)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(rgb))
	for i, v := range rgb {
		scaled := float32(float64(v) * p.Rescale)
		out[i] = float32(scaled-float32(p.Mean[i%3])) / float32(p.Std[i%3])
		if math.IsNaN(float64(out[i])) {
			return nil, fmt.Errorf("image_mean is %v and rescale_factor %g: they give no numbers", p.Mean, p.Rescale)
		}
	}
	return out, nil
}
