package wan

import (
	"encoding/json"
	"errors"
	"fmt"
)

// originalConfig is a config.json of the original code.
type originalConfig struct {
	Dim       int     `json:"dim"`
	FFN       int     `json:"ffn_dim"`
	FreqDim   int     `json:"freq_dim"`
	Heads     int     `json:"num_heads"`
	Layers    int     `json:"num_layers"`
	In        int     `json:"in_dim"`
	Out       int     `json:"out_dim"`
	TextLen   int     `json:"text_len"`
	Eps       float64 `json:"eps"`
	ModelType string  `json:"model_type"`
}

// parseOriginal parses a config.json of the original code over c.
func parseOriginal(data []byte, c Config) (Config, error) {
	o := originalConfig{Dim: c.Hidden(), FFN: c.FFN, FreqDim: c.FreqDim, Heads: c.Heads, Layers: c.Layers, In: c.InChannels,
		Out: c.OutChannels, TextLen: textTokens, Eps: c.Eps, ModelType: "t2v"}
	if err := json.Unmarshal(data, &o); err != nil {
		return c, fmt.Errorf("parse config.json of Wan: %w", err)
	}
	switch {
	case o.ModelType == "i2v" || o.ModelType == "flf2v":
		return c, fmt.Errorf("config.json of Wan: model_type is %q, which does not distinguish 2.1 from 2.2: remove this file, so that "+
			"the tensors decide", o.ModelType)
	case o.ModelType != "t2v" && o.ModelType != "ti2v":
		return c, fmt.Errorf("config.json of Wan: model_type is %q, only t2v and ti2v are supported", o.ModelType)
	case o.TextLen != textTokens:
		return c, fmt.Errorf("config.json of Wan: text_len is %d, only %d is supported", o.TextLen, textTokens)
	case o.Heads < 1 || o.Dim < 1 || o.Dim%o.Heads != 0:
		return c, fmt.Errorf("config.json of Wan: dim is %d and num_heads %d: one must be a multiple of the other", o.Dim, o.Heads)
	}
	c.Heads, c.HeadSize, c.FFN, c.FreqDim, c.Layers = o.Heads, o.Dim/o.Heads, o.FFN, o.FreqDim, o.Layers
	c.InChannels, c.OutChannels, c.Eps = o.In, o.Out, o.Eps
	return c, nil
}

// errOriginal says how to use weights with the original layout.
var errOriginal = errors.New("the tensors have the names of the original code: rewrite them with latentbeam convert IN OUT, " +
	"and give OUT")
