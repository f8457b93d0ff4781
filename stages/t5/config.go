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
	FeedForward string  `json:"feed_forward_proj"` // FUNCTION or gated-FUNCTION, one of acts
	DenseAct    *string `json:"dense_act_fn"`      // wins over the function of FeedForward; nil: not given
	Gated       *bool   `json:"is_gated_act"`      // wins over the gate of FeedForward; nil: not given

	// DType is that of weights and activations, which the file does not decide; see Encode.
	DType kernels.DType `json:"-"`
	// Int8 says that products in the layers int8Layers are of numbers of 8 bits.
	Int8 bool `json:"-"`
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
	op   kernels.UnaryOp // Identity where the function is host
	host func(kernels.Backend, kernels.Tensor)
}

// acts are the functions by their names in transformers.
var acts = map[string]act{"relu": {host: nn.ReLU}, "silu": {op: kernels.SiLU}, "gelu": {host: nn.GELU},
	"quick_gelu": {host: nn.QuickGELU}, "gelu_new": {op: kernels.GELUTanh}}

// actAliases are other names of the same functions.
var actAliases = map[string]string{"swish": "silu", "gelu_python": "gelu", "gelu_pytorch_tanh": "gelu_new",
	"gelu_python_tanh": "gelu_new"}

// projected returns the function and the gate that FeedForward names: gated-gelu is gelu_new, as in transformers.
func (c Config) projected() (name string, gated bool) {
	if name, gated = strings.CutPrefix(c.FeedForward, "gated-"); gated && name == "gelu" {
		name = "gelu_new"
	}
	return cmp.Or(actAliases[name], name), gated
}

// activation returns the function in the feed-forward layers, and whether it gates a second product. dense_act_fn and
// is_gated_act win over feed_forward_proj, as in transformers.
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

// otherActivation names the activation where FeedForward says another, else "". The weights' digest does not tell it, so
// it joins the digest of the stage.
func (c Config) otherActivation() string {
	name, gated := c.activation()
	if projected, gate := c.projected(); name == projected && gated == gate {
		return ""
	}
	return fmt.Sprintf("activation %s, gated %t", name, gated)
}

// ParseConfig reads transformers' config.json. Unknown keys are ignored: the file holds many that do not
// concern the encoder.
func ParseConfig(data []byte) (Config, error) {
	var id struct {
		ModelType string           `json:"model_type"`
		ClassName stages.ClassName `json:"_class_name"` // of diffusers
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return Config{}, fmt.Errorf("parse t5 config.json: %w", err)
	}
	name := cmp.Or(id.ModelType, string(id.ClassName), modelT5)
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
