package t5

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Config describes an encoder of T5, T5 v1.1, mT5 or UMT5. The names come from transformers' config.json.
type Config struct {
	ModelType   string  `json:"model_type"` // "t5" (also ""), "mt5" or "umt5"
	VocabSize   int     `json:"vocab_size"`
	DModel      int     `json:"d_model"` // width of the hidden state
	DKV         int     `json:"d_kv"`    // width of one head
	DFF         int     `json:"d_ff"`    // width inside the feed-forward layer
	NumLayers   int     `json:"num_layers"`
	NumHeads    int     `json:"num_heads"`                      // num_heads * d_kv need not equal d_model
	NumBuckets  int     `json:"relative_attention_num_buckets"` // 32
	MaxDistance int     `json:"relative_attention_max_distance"`
	Epsilon     float64 `json:"layer_norm_epsilon"`
	FeedForward string  `json:"feed_forward_proj"` // FUNCTION or gated-FUNCTION, see acts
	DenseAct    *string `json:"dense_act_fn"`      // wins over the function of FeedForward; nil: not given
	Gated       *bool   `json:"is_gated_act"`      // wins over the gate of FeedForward; nil: not given

	// DType is the type of weights and activations. It is not in the file; see Encode.
	DType kernels.DType `json:"-"`
	// Int8 selects 8-bit products in the layers int8Layers.
	Int8 bool `json:"-"`
}

// Limits of a configuration, several times larger than the largest published encoder.
const (
	maxVocab  = 1 << 20
	maxWidth  = 1 << 16
	maxLayers = 256

	maxBuckets = 1 << 12
)

// act is the activation function in a feed-forward layer.
type act struct {
	op   kernels.UnaryOp // Identity if host is set
	host func(kernels.Backend, kernels.Tensor)
}

// acts maps transformers' names to functions.
var acts = map[string]act{"relu": {host: nn.ReLU}, "silu": {op: kernels.SiLU}, "gelu": {host: nn.GELU},
	"quick_gelu": {host: nn.QuickGELU}, "gelu_new": {op: kernels.GELUTanh}}

// actAliases maps other names to the names in acts.
var actAliases = map[string]string{"swish": "silu", "gelu_python": "gelu", "gelu_pytorch_tanh": "gelu_new",
	"gelu_python_tanh": "gelu_new"}

// projected returns the function and the gate from FeedForward. gated-gelu means gelu_new, as in transformers.
func (c Config) projected() (name string, gated bool) {
	if name, gated = strings.CutPrefix(c.FeedForward, "gated-"); gated && name == "gelu" {
		name = "gelu_new"
	}
	return cmp.Or(actAliases[name], name), gated
}

// activation returns the function in the feed-forward layers, and whether it gates a second product. dense_act_fn and
// is_gated_act override feed_forward_proj, as in transformers.
func (c Config) activation() (name string, gated bool) {
	name, gated = c.projected()
	if c.DenseAct != nil {
		name = cmp.Or(actAliases[*c.DenseAct], *c.DenseAct)
	}
	if c.Gated != nil {
		gated = *c.Gated
	}
	return name, gated
}

// otherActivation returns the name of the activation if it differs from FeedForward, else "". It joins the digest of the stage,
// because the weights' digest does not depend on it.
func (c Config) otherActivation() string {
	name, gated := c.activation()
	if projected, gate := c.projected(); name == projected && gated == gate {
		return ""
	}
	return fmt.Sprintf("activation %s, gated %t", name, gated)
}

// ParseConfig parses transformers' config.json. It ignores unknown keys, because the file has many that do not concern the
// encoder.
func ParseConfig(data []byte) (Config, error) {
	var id struct {
		ModelType string           `json:"model_type"`
		ClassName stages.ClassName `json:"_class_name"` // of diffusers
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return Config{}, fmt.Errorf("parse t5 config.json: %w", err)
	}
	name := cmp.Or(id.ModelType, string(id.ClassName), modelT5)
	of, ok := variants[name]
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
		weights.Within("vocab_size", c.VocabSize, maxVocab), weights.Within("d_model", c.DModel, maxWidth),
		weights.Within("d_kv", c.DKV, maxWidth), weights.Within("d_ff", c.DFF, maxWidth),
		weights.Within("num_layers", c.NumLayers, maxLayers), weights.Within("num_heads", c.NumHeads, maxWidth),
	); err != nil {
		return fmt.Errorf("t5 config.json: %w", err)
	}
	if c.NumHeads*c.DKV > maxWidth {
		return fmt.Errorf("t5 config.json: num_heads * d_kv is %d, must be at most %d",
			c.NumHeads*c.DKV, maxWidth)
	}
	name, _ := c.activation()
	if _, known := acts[name]; !known {
		field := "feed_forward_proj"
		if c.DenseAct != nil {
			field = "dense_act_fn"
		}
		return fmt.Errorf("t5 config.json: %s names the function %q; there are %s", field, name,
			strings.Join(slices.Sorted(maps.Keys(acts)), ", "))
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
