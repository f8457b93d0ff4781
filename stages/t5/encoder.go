package t5

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// Encoder is an encoder of T5 v1.1, mT5 or UMT5. It is read-only after loading and safe for use by any backend of its device.
type Encoder struct {
	Config
	embedding    kernels.Tensor // shared.weight (V, d_model); zero after the first stage of a pipeline
	relativeBias kernels.Tensor // relative_attention_bias.weight of block 0 (32, all heads); zero for UMT5
	heads        sequence.Range // heads on this rank of tensor parallelism
	layers       []layer
	own          sequence.Range // layers on this rank of pipeline parallelism
	flow         *weights.Flow
	finalNorm    kernels.Tensor // encoder.final_layer_norm.weight (d_model); zero before the last stage
}

// layer is one encoder.block.N.
type layer struct {
	norm0      kernels.Tensor // layer.0.layer_norm.weight (d_model)
	q, k, v, o nn.Linear      // layer.0.SelfAttention.{q,k,v} (H d_kv, d_model), .o (d_model, H d_kv)
	norm1      kernels.Tensor // layer.1.layer_norm.weight (d_model)
	wi0, wi1   nn.Linear      // layer.1.DenseReluDense.{wi_0,wi_1} (d_ff, d_model); without a gate wi0 is wi
	wo         nn.Linear      // layer.1.DenseReluDense.wo (d_model, d_ff)
	// relativeBias is the block's own table (32, all heads); only UMT5 has it.
	relativeBias kernels.Tensor
}

// The two names of the embedding in published files.
const (
	sharedName = "shared.weight"
	tokensName = "encoder.embed_tokens.weight"
)

// int8Layers is the prefix of the layers that precision: int8 rounds. Embedding, relative positions and norms are not rounded.
const int8Layers = "encoder.block."

// Load loads an encoder by transformers' tensor names. Its error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*Encoder, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := cfg.checkVariant(w); err != nil {
		return nil, fmt.Errorf("load t5: %w", err)
	}
	if err := cfg.checkEmbeddings(w); err != nil {
		return nil, fmt.Errorf("load t5: %w", err)
	}
	e := &Encoder{Config: cfg}
	w = w.As(cfg.DType).Int8(cfg.Int8, int8Layers)
	// The embedding has a second name; transformers writes one or both.
	embedding := sharedName
	if !w.Has(embedding) && w.Has(tokensName) {
		embedding = tokensName
	}
	e.embedding = w.AtFirst(embedding, cfg.VocabSize, cfg.DModel)
	enc := w.Sub("encoder")
	e.heads, _ = w.Heads(cfg.NumHeads, cfg.DKV)
	if !cfg.variant().ownBias {
		e.relativeBias = enc.Tensor("block.0."+biasName, cfg.NumBuckets, cfg.NumHeads)
	}
	e.own, e.flow = enc.Blocks(cfg.NumLayers, "block.%d"), enc.Flow()
	for i := e.own.Lo; i < e.own.Hi; i++ {
		e.layers = append(e.layers, loadLayer(enc.Block(i, "block.%d"), cfg))
	}
	e.finalNorm = enc.AtLast("final_layer_norm.weight", cfg.DModel)
	// A complete T5 also has a decoder.
	if err := w.Check(tokensName, "decoder.*", "lm_head.weight", packedTokenizer); err != nil {
		return nil, fmt.Errorf("load t5: %w", err)
	}
	return e, nil
}

func loadLayer(w *weights.Weights, cfg Config) layer {
	inner := cfg.NumHeads * cfg.DKV
	_, head := w.Heads(cfg.NumHeads, cfg.DKV)
	hidden := w.Hidden(cfg.DFF)
	attention, dense := w.Sub("layer.0.SelfAttention"), w.Sub("layer.1.DenseReluDense")
	query := func(name string) nn.Linear {
		return nn.LoadRows(attention.Sub(name), cfg.DModel, 1, inner, head, false)
	}
	wi := func(name string) nn.Linear {
		return nn.LoadRows(dense.Sub(name), cfg.DModel, 1, cfg.DFF, hidden, false)
	}
	l := layer{
		norm0: w.Tensor("layer.0.layer_norm.weight", cfg.DModel),
		q:     query("q"),
		k:     query("k"),
		v:     query("v"),
		o: nn.LoadSum(attention.Sub("o"), inner, cfg.DModel, head,
			nn.HeadParts(cfg.NumHeads, cfg.DKV), false),
		norm1: w.Tensor("layer.1.layer_norm.weight", cfg.DModel),
		wo: nn.LoadSum(dense.Sub("wo").As(cfg.streamType()), cfg.DFF, cfg.DModel, hidden,
			nn.ColumnParts(cfg.DFF), false),
	}
	if _, gated := cfg.activation(); gated {
		l.wi0, l.wi1 = wi("wi_0"), wi("wi_1")
	} else {
		l.wi0 = wi("wi")
	}
	if cfg.variant().ownBias {
		l.relativeBias = w.Tensor(biasName, cfg.NumBuckets, cfg.NumHeads)
	}
	return l
}

// streamType returns the type of wo, and so of the residual stream after the first feed-forward layer. With fp16 it is fp32,
// because the sums of a large T5 exceed the range of fp16 (transformers' _keep_in_fp32_modules).
func (c Config) streamType() kernels.DType {
	if c.DType == kernels.F16 {
		return kernels.F32
	}
	return c.DType
}

// MaxTokens limits the length of one prompt, because the relative bias is a table of length^2 * num_heads.
const MaxTokens = 1024

// Encode returns the last hidden state of each prompt, (L_i, d_model), in the scope open at the call. ids are the token ids of
// each prompt without padding. In every layer the prompts are adjacent in one tensor and attend only to themselves. So no
// padding is computed, and a prompt's bits do not depend on the batch.
//
// In bf16 and fp16 every module's result is rounded, as between the modules of transformers. The scores of attention stay in
// fp32, as in its fused kernels.
func (e *Encoder) Encode(be kernels.Backend, ids [][]int32) ([]kernels.Tensor, error) {
	if err := e.checkIDs(ids); err != nil {
		return nil, fmt.Errorf("encode text: %w", err)
	}
	out, rows := e.output(be, ids)
	if out.Len() == 0 {
		return rows, nil
	}
	defer be.Scope()()
	x, err := e.advance(be, e.embed(be, ids), ids)
	if err != nil {
		return nil, fmt.Errorf("encode text: %w", err)
	}
	e.norm(be, out, x, e.finalNorm)
	return rows, nil
}

// output allocates the result (sum L, d_model) and returns it with its rows (L_i, d_model).
func (e *Encoder) output(be kernels.Backend, ids [][]int32) (out kernels.Tensor, rows []kernels.Tensor) {
	total := 0
	for _, row := range ids {
		total += len(row)
	}
	out = be.Alloc(e.DType, total, e.DModel)
	start := 0
	for _, row := range ids {
		rows = append(rows, out.Narrow(0, start, len(row)))
		start += len(row)
	}
	return out, rows
}

// embed returns the embedded tokens (sum L, d_model).
func (e *Encoder) embed(be kernels.Backend, ids [][]int32) kernels.Tensor {
	flat := slices.Concat(ids...)
	x := be.Alloc(e.DType, len(flat), e.DModel)
	be.Gather(x, e.embedding, flat)
	return x
}

// advance runs this rank's layers on x (sum L, d_model) and returns the result. The result is x itself, unless the stream
// changed from fp16 to fp32.
func (e *Encoder) advance(be kernels.Backend, x kernels.Tensor, ids [][]int32) (kernels.Tensor, error) {
	longest := 0
	for _, row := range ids {
		longest = max(longest, len(row))
	}
	var shared kernels.Tensor // (H, max L, max L), for all blocks
	if !e.variant().ownBias {
		shared = e.positionBias(be, longest)
	}
	for i := range e.flow.Each(e.own) {
		l := &e.layers[i-e.own.Lo]
		e.attendFrom(be, l, x, shared, longest, ids)
		if x.DType != e.streamType() { // once, in fp16
			var err error
			if x, err = e.widen(be, x, ids); err != nil {
				return x, err
			}
		}
		e.feedForward(be, l, x)
	}
	return x, nil
}

func (e *Encoder) checkIDs(ids [][]int32) error {
	for i, row := range ids {
		if len(row) == 0 || len(row) > MaxTokens {
			return fmt.Errorf("prompt %d has %d tokens, must be 1 to %d (an empty prompt is one end token)",
				i, len(row), MaxTokens)
		}
		for _, id := range row {
			if id < 0 || int(id) >= e.VocabSize {
				return fmt.Errorf("prompt %d holds token id %d, but vocab_size is %d: "+
					"tokenizer and encoder do not belong together", i, id, e.VocabSize)
			}
		}
	}
	return nil
}

// positionBias returns the relative position bias of block 0, which all blocks share, for this rank's heads: (H, n, n). UMT5
// uses blockBias instead.
func (e *Encoder) positionBias(be kernels.Backend, n int) kernels.Tensor {
	bias := be.Alloc(kernels.F32, e.heads.Len(), n, n) // (H, n, n)
	defer be.Scope()()
	byPair := be.Alloc(kernels.F32, n*n, e.NumHeads) // (n n, all heads)
	be.Gather(byPair, e.relativeBias, e.buckets(n))
	mine := byPair.Narrow(1, e.heads.Lo, e.heads.Len()) // (n n, H)
	be.Copy(bias, mine.Reshape(n, n, e.heads.Len()).Permute(2, 0, 1))
	return bias
}

// attendFrom is attend for prompts of at most n tokens. The bias is shared (H, n, n), or the block's own if it has a table.
func (e *Encoder) attendFrom(be kernels.Backend, l *layer, x, shared kernels.Tensor, n int, ids [][]int32) {
	if !shared.IsZero() {
		e.attend(be, l, x, shared, ids)
		return
	}
	defer be.Scope()()
	e.attend(be, l, x, e.blockBias(be, l.relativeBias, n), ids)
}

// attend computes x += o(attention(rms(x))) in place: x (sum L, d_model). Scores include the bias and are not scaled by
// 1/sqrt(d_kv).
func (e *Encoder) attend(be kernels.Backend, l *layer, x, bias kernels.Tensor, ids [][]int32) {
	defer be.Scope()()
	h := be.Alloc(e.DType, x.Shape...) // (sum L, d_model)
	e.norm(be, h, x, l.norm0)
	q := l.q.Forward(be, h, kernels.Identity) // (sum L, H d_kv)
	k := l.k.Forward(be, h, kernels.Identity) // (sum L, H d_kv)
	v := l.v.Forward(be, h, kernels.Identity) // (sum L, H d_kv)
	out := be.Alloc(e.DType, q.Shape...)      // (sum L, H d_kv)
	start := 0
	for _, row := range ids {
		n := len(row)
		one := func(t kernels.Tensor) kernels.Tensor { // (1, L, H, d_kv)
			return t.Narrow(0, start, n).Reshape(1, n, e.heads.Len(), e.DKV)
		}
		be.Attention(one(out), one(q), one(k), one(v), kernels.AttentionSpec{
			Scale: 1, Bias: bias.Narrow(1, 0, n).Narrow(2, 0, n), // (H, L, L)
		})
		start += n
	}
	if x.DType == e.DType {
		l.o.AddTo(be, x, out, kernels.Tensor{})
		return
	}
	be.Binary(x, x, l.o.Forward(be, out, kernels.Identity), kernels.Add)
}

// feedForward computes x += wo(act(wi_0(rms(x))) * wi_1(rms(x))) in place, or without a gate x += wo(act(wi(rms(x)))). x is
// (sum L, d_model).
func (e *Encoder) feedForward(be kernels.Backend, l *layer, x kernels.Tensor) {
	defer be.Scope()()
	h := be.Alloc(e.DType, x.Shape...) // (sum L, d_model)
	e.norm(be, h, x, l.norm1)
	name, gated := e.activation()
	act := acts[name]
	up := l.wi0.Forward(be, h, act.op) // (sum L, d_ff)
	if act.host != nil {
		act.host(be, up)
	}
	if gated {
		up = l.wi1.ForwardGated(be, h, up) // (sum L, d_ff)
	}
	l.wo.AddTo(be, x, up, kernels.Tensor{})
}

// norm computes dst = weight * x / sqrt(mean(x^2) + eps); both (sum L, d_model). In bf16 and fp16 the normalised
// value is rounded before the product, as in transformers (see kernels.NormSpec).
func (e *Encoder) norm(be kernels.Backend, dst, x, weight kernels.Tensor) {
	be.Norm(dst, x, kernels.NormSpec{Kind: kernels.RMSNorm, Eps: float32(e.Epsilon), Weight: weight})
}
