package t5

import (
	"cmp"
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weight"
)

// Config describes an encoder of T5, T5 v1.1, mT5 or UMT5; the names are those of transformers' config.json.
type Config struct {
	ModelType   string  `json:"model_type"` // "t5", which "" stands for too, "mt5" or "umt5"
	VocabSize   int     `json:"vocab_size"`
	DModel      int     `json:"d_model"` // width of the hidden state
	DKV         int     `json:"d_kv"`    // width of one head
	DFF         int     `json:"d_ff"`    // width inside the feed-forward layer
	NumLayers   int     `json:"num_layers"`
	NumHeads    int     `json:"num_heads"`                      // num_heads * d_kv need not equal d_model
	NumBuckets  int     `json:"relative_attention_num_buckets"` // 32
	MaxDistance int     `json:"relative_attention_max_distance"`
	Epsilon     float64 `json:"layer_norm_epsilon"`
	FeedForward string  `json:"feed_forward_proj"` // one of acts

	// DType is that of weights and activations, which the file does not decide; see Encode.
	DType kernels.DType `json:"-"`
}

// Limits of a configuration, several times the largest published encoder.
const (
	maxVocab  = 1 << 20
	maxWidth  = 1 << 16
	maxLayers = 256

	maxBuckets = 1 << 12
)

// act is the function in a feed-forward layer.
type act struct {
	gated bool            // it is that of one of two products; else there is one product
	op    kernels.UnaryOp // Identity where the function is host
	host  func(kernels.Backend, kernels.Tensor)
}

// acts are the functions by their names in config.json. T5 of 2019 has relu, v1.1 gated-gelu.
var acts = map[string]act{"gated-gelu": {gated: true, op: kernels.GELUTanh}, "gated-silu": {gated: true, op: kernels.SiLU},
	"gated-relu": {gated: true, host: nn.ReLU}, "relu": {host: nn.ReLU}}

// ParseConfig reads transformers' config.json. Unknown keys are ignored: the file holds many that do not
// concern the encoder.
func ParseConfig(data []byte) (Config, error) {
	var id struct {
		ModelType string `json:"model_type"`
		ClassName string `json:"_class_name"` // of diffusers
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return Config{}, fmt.Errorf("parse t5 config.json: %w", err)
	}
	name := cmp.Or(id.ModelType, id.ClassName, modelT5)
	of, ok := kins[name]
	if !ok {
		return Config{}, fmt.Errorf("t5 config.json: this is %q, not a T5 encoder", name)
	}
	c := Config{NumBuckets: numBuckets, MaxDistance: maxDistance, Epsilon: 1e-6, FeedForward: of.feedForward}
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("parse t5 config.json: %w", err)
	}
	return c, c.validate()
}

func (c Config) validate() error {
	if err := cmp.Or(
		weight.Within("vocab_size", c.VocabSize, maxVocab), weight.Within("d_model", c.DModel, maxWidth),
		weight.Within("d_kv", c.DKV, maxWidth), weight.Within("d_ff", c.DFF, maxWidth),
		weight.Within("num_layers", c.NumLayers, maxLayers), weight.Within("num_heads", c.NumHeads, maxWidth),
	); err != nil {
		return fmt.Errorf("t5 config.json: %w", err)
	}
	if c.NumHeads*c.DKV > maxWidth {
		return fmt.Errorf("t5 config.json: num_heads * d_kv is %d, must be at most %d",
			c.NumHeads*c.DKV, maxWidth)
	}
	if _, known := acts[c.FeedForward]; !known {
		return fmt.Errorf("t5 config.json: feed_forward_proj is %q, only gated-gelu (T5 v1.1), gated-silu, gated-relu and "+
			"relu are supported", c.FeedForward)
	}
	if c.NumBuckets < 4 || c.NumBuckets%2 != 0 || c.NumBuckets > maxBuckets {
		return fmt.Errorf("t5 config.json: relative_attention_num_buckets is %d, must be even and 4 to %d", c.NumBuckets, maxBuckets)
	}
	if exact := c.NumBuckets / 4; c.MaxDistance <= exact || c.MaxDistance > maxWidth {
		return fmt.Errorf("t5 config.json: relative_attention_max_distance is %d, must be more than %d, a quarter of the buckets, and at "+
			"most %d", c.MaxDistance, exact, maxWidth)
	}
	if !(c.Epsilon > 0 && c.Epsilon < 1) {
		return fmt.Errorf("t5 config.json: layer_norm_epsilon is %g, must be between 0 and 1", c.Epsilon)
	}
	return nil
}
