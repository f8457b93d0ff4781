package musiq

import (
	"encoding/json"
	"fmt"

	"latentbeam/stages/weights"
)

// Component is the name of MUSIQ among the components of models.
const Component = "musiq"

// Config describes a network. pyiqa publishes no config.json, so it is derived from the tensors.
type Config struct {
	Hidden       int `json:"hidden_size"`
	Intermediate int `json:"intermediate_size"`
	Layers       int `json:"num_hidden_layers"`
}

// headWidth is the width of an attention head in all published networks.
const headWidth = 64

// Limits for a config.json.
const (
	maxWidth  = 1 << 13
	maxLayers = 128
)

// ParseConfig parses a config.json.
func ParseConfig(data []byte) (c Config, err error) {
	if err = json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("parse config.json of MUSIQ: %w", err)
	}
	if c.Hidden < headWidth || c.Hidden > maxWidth || c.Hidden%headWidth != 0 || c.Intermediate < 1 || c.Intermediate > maxWidth ||
		c.Layers < 1 || c.Layers > maxLayers {
		return c, fmt.Errorf("config.json of MUSIQ: hidden_size %d, intermediate_size %d, num_hidden_layers %d: give a multiple of %d up to %d, "+
			"1 to %d and 1 to %d", c.Hidden, c.Intermediate, c.Layers, headWidth, maxWidth, maxWidth, maxLayers)
	}
	return c, nil
}

// Family recognises MUSIQ by its tensors, in the names of pyiqa.
func Family() weights.Family {
	return weights.Family{
		Component: Component,
		Layouts:   []weights.Layout{parallel},
		Guess: func(s weights.Shapes) ([]byte, error) {
			at := ""
			if s.Has("module." + mark) {
				at = "module."
			}
			if !s.Has(at+mark) || !s.Has(at+"embedding.weight") {
				return nil, nil
			}
			return json.Marshal(Config{s.Dim(at+"embedding.weight", 0), s.Dim(at+"transformer_encoder.transformer.encoderblock_0.mlp.fc1.weight", 0),
				s.Count(at + "transformer_encoder.transformer.encoderblock_%d.norm1.weight")})
		},
		Load: weights.Loader(ParseConfig, Load, func(c Config) string {
			return fmt.Sprintf("MUSIQ, image quality: %d layers, width %d", c.Layers, c.Hidden)
		}),
	}
}

// mark is a tensor that only MUSIQ has.
const mark = "transformer_encoder.posembed_input.position_emb"

// parallel is the layout of weights that were saved by nn.DataParallel.
var parallel = weights.Layout{Mark: "module." + mark, Rules: weights.Rules(`module\.(.*)`, "$1")}
