package t5

import (
	"fmt"
	"strings"

	"latentbeam/stages/t5/clean"
	"latentbeam/stages/weights"
)

// variant describes how an encoder with T5's architecture differs from the others.
type variant struct {
	name        string // for people
	feedForward string // meaning of a missing feed_forward_proj in config.json
	ownBias     bool   // every block has its own relative positions; else all blocks use block 0's
	extraIDs    int    // number of <extra_id_N> tokens after the pieces of a published tokenizer
	fast        bool   // the reference uses transformers' fast tokenizer, which differs in rare cases
	tokens      int    // max_sequence_length of the models with this encoder; 0: the model's files say it
	clean       func(prompt string) string
	emptyText   bool // the negative prompt "none" means the empty text; else it is a word
}

// The values of model_type in config.json.
const (
	modelT5   = "t5"
	modelMT5  = "mt5"
	modelUMT5 = "umt5"
)

// variants has the encoders by model_type. "" is a T5 whose config.json names no type.
//
// Wan's documentation does not say how UMT5's extra ids are ordered. In transformers' conversion they count down as T5's do, so
// <extra_id_0> is the last. mT5's extra ids are pieces of its file.
var variants = map[string]variant{
	"":       {name: "T5 v1.1", feedForward: "relu", extraIDs: 100, clean: clean.Caption},
	modelT5:  {name: "T5 v1.1", feedForward: "relu", extraIDs: 100, clean: clean.Caption},
	modelMT5: {name: "mT5", feedForward: "gated-gelu", fast: true, tokens: 512, clean: strings.Clone},
	modelUMT5: {name: "UMT5", feedForward: "gated-gelu", ownBias: true, extraIDs: 300, fast: true, tokens: 512, clean: clean.Prompt,
		emptyText: true},
}

func (c Config) variant() variant { return variants[c.ModelType] }

// biasName is the name of the tensor with a block's relative positions.
const biasName = "layer.0.SelfAttention.relative_attention_bias.weight"

// checkVariant returns an error if the tensors belong to another variant than config.json names. Without the check the encoder would
// use wrong relative positions and give wrong numbers without a message.
func (c Config) checkVariant(w *weights.Weights) error {
	if c.NumLayers < 2 || !w.Has("encoder.block.0."+biasName) {
		return nil // Check lists what is missing
	}
	others := w.Has("encoder.block.1." + biasName)
	for i := 2; i < c.NumLayers; i++ {
		others = others || w.Has(fmt.Sprintf("encoder.block.%d.", i)+biasName)
	}
	switch own := c.variant().ownBias; {
	case own && !others:
		return fmt.Errorf("config.json says %s, which has a relative_attention_bias in every block, but the weights have "+
			"one in block 0 alone: they are those of T5 or mT5", c.variant().name)
	case !own && others:
		return fmt.Errorf("config.json says %s, which has a relative_attention_bias in block 0 alone, but the weights have "+
			"more: they are those of UMT5, whose model_type is umt5", c.variant().name)
	}
	return nil
}

// checkEmbeddings returns an error if the file has the embedding under both names and the numbers differ. One release of
// transformers wrote zeros under one name. Files of T5 are not checked; Load reads the first name.
func (c Config) checkEmbeddings(w *weights.Weights) error {
	if c.variant().tokens > 0 && !w.Same(sharedName, tokensName) {
		return fmt.Errorf("%s and %s are the same embedding, but their numbers differ: one of them is damaged", sharedName,
			tokensName)
	}
	return nil
}
