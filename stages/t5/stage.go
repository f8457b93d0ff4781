package t5

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/condition"
	"latentbeam/stages/t5/sentencepiece"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/gguf"
)

// options is the stage's map in the YAML.
type options struct {
	// Clean says whether prompts are cleaned before tokenizing as the reference does: for T5 Open-Sora, for UMT5 Wan;
	// default true. mT5's reference is Open-Sora-Plan: its templates of version 1.2 clean as Open-Sora does, that of 1.3
	// leaves prompts as they are.
	Clean bool `yaml:"clean" json:"clean"`
	// PromptTemplate is what is put around prompts, but not around negative ones: osp12-single, osp12-multi or osp13, as the
	// scripts of Open-Sora-Plan do, or none. Default: osp12-single for models of version 1.2, osp13 for those of 1.3, else
	// none.
	PromptTemplate string `yaml:"prompt_template" json:"prompt_template,omitempty"`
	// Scores is how aes, flow and camera_motion are written behind a prompt: none, 1.2 or 1.3. Default: as the
	// model's version reads them; models that read none leave the columns alone.
	Scores string `yaml:"scores" json:"scores,omitempty"`
	// DType is that of weights and activations: fp32, which is the default and what the reference runs, bf16
	// or fp16.
	DType string `yaml:"dtype" json:"dtype,omitempty"`
	// Precision is int8 for products of numbers of 8 bits in all layers; "": of the type of DType.
	Precision string `yaml:"precision" json:"precision,omitempty"`
	// TPSize and PPSize are over how many workers the heads and columns, and the layers, of the weights are cut.
	// They change no value and no key; auto cuts weights that do not fit one device.
	TPSize schemas.AutoInt `yaml:"tp_size" json:"-"`
	PPSize schemas.AutoInt `yaml:"pp_size" json:"-"`
}

// Spec returns the stage `encode_text`: the prompt is cleaned, tokenized and encoded, and so is the
// negative prompt where the row has one.
func Spec() stages.Spec {
	return stages.Spec{
		Name: "encode_text",
		Doc: "T5, T5 v1.1, mT5 or UMT5: prompts to text embeddings; clean: false leaves the prompt as it is; " +
			"prompt_template: osp12-single, osp12-multi, osp13 or none; scores: none, 1.2 or 1.3; dtype: fp32, bf16 or " +
			"fp16; precision: int8; tp_size, pp_size: auto or N",
		In:      stages.KindPrompt,
		Out:     stages.KindText,
		Version: 1,
		Params: []stages.Param{stages.ParamPrompt, stages.ParamNegativePrompt, stages.ParamMaxSequenceLength,
			stages.ParamAes, stages.ParamFlow, stages.ParamCameraMotion, stages.ParamLoop},
		New: open,
	}
}

// dtypes are the values of the option dtype.
var dtypes = map[string]kernels.DType{"": kernels.F32, "fp32": kernels.F32, "bf16": kernels.BF16,
	"fp16": kernels.F16}

func open(m *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := options{Clean: true}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	dtype, ok := dtypes[opts.DType]
	if !ok {
		return nil, stages.Errorf("dtype", "encode_text: dtype is %q: give fp32, bf16 or fp16", opts.DType)
	}
	int8, err := weights.ParsePrecision(opts.Precision)
	if err != nil {
		return nil, fmt.Errorf("encode_text: %w", err)
	}
	style, err := scoreStyle(opts.Scores, m.Index)
	if err != nil {
		return nil, err
	}
	wrapping, err := templateOf(opts.PromptTemplate, m.Index)
	if err != nil {
		return nil, err
	}
	opts.PromptTemplate = "" // the digest has it
	encoder, err := weights.OpenComponent(m, "text_encoder", ParseConfig, Load)
	if err != nil {
		return nil, err
	}
	encoder.Config.DType, encoder.Config.Int8 = dtype, int8
	sharded, err := encoder.Over(int(opts.TPSize), int(opts.PPSize), encoder.Config.NumHeads, encoder.Config.NumLayers)
	if err != nil {
		return nil, fmt.Errorf("encode_text: %w", err)
	}
	if dtype == kernels.F32 {
		opts.DType = "" // which is no other job
	}
	pieces, where, err := readTokenizer(m, inside(encoder))
	var tok *sentencepiece.Tokenizer
	if err == nil {
		tok, err = openTokenizer(pieces, where, encoder.Config)
	}
	if err != nil && !m.Lack("a tokenizer", err) {
		return nil, err
	}
	named := append([]byte(encoder.Digest()), pieces...)
	if style != scoresNone {
		named = append(named, style...)
	}
	if wrapping != templateNone {
		named = append(named, wrapping...)
	}
	named = append(named, encoder.Config.otherActivation()...)
	digest := sha256.Sum256(named)
	return &stage{Sharded: sharded, tok: tok, digest: hex.EncodeToString(digest[:]), clean: opts.Clean, scores: style,
		template: templates[wrapping]}, nil
}

// tokenizerFiles are where tokenizers lie, in the order in which they are taken: beside the encoder, or in tokenizer/ as some
// hubs lay it out. transformers saves a tokenizer.json alone where it has no spiece.model.
var tokenizerFiles = []string{"text_encoder/spiece.model", "tokenizer/spiece.model", "text_encoder/tokenizer.json", "tokenizer/tokenizer.json"}

// packedTokenizer is the tensor of ComfyUI's files that holds a spiece.model.
const packedTokenizer = "spiece_model"

// insideTokenizer is a tokenizer that the file of the weights holds.
type insideTokenizer struct {
	data    []byte // a spiece.model; nil: there is none
	where   string
	problem string // why it cannot be used
}

// inside returns the tokenizer that the weights hold: a tensor of ComfyUI's files, or that of a GGUF.
func inside(encoder *weights.Component[Config, Encoder]) insideTokenizer {
	if data := encoder.Raw(packedTokenizer); data != nil {
		return insideTokenizer{data: data, where: "the tensor " + packedTokenizer}
	}
	if data := encoder.Metadata(gguf.Tokenizer); data != "" {
		return insideTokenizer{data: []byte(data), where: "the tokenizer in the GGUF"}
	}
	return insideTokenizer{problem: encoder.Metadata(gguf.NoTokenizer)}
}

// readTokenizer reads the first tokenizer of a model, or the one inside its weights, and says where it was.
func readTokenizer(m *stages.Model, own insideTokenizer) (data []byte, name string, err error) {
	for _, name := range tokenizerFiles {
		data, err := m.ReadFile(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return data, name, err
		}
	}
	if own.data != nil {
		return own.data, own.where, nil
	}
	_, err = m.ReadFile(tokenizerFiles[0])
	if own.problem != "" {
		err = fmt.Errorf("%w, and the GGUF does not replace it: %s", err, own.problem)
	}
	return nil, "", fmt.Errorf("%w: T5 needs its tokenizer, a spiece.model or a tokenizer.json, there or in tokenizer/", err)
}

// openTokenizer makes the tokenizer of a file and checks that it belongs to the encoder.
func openTokenizer(data []byte, name string, cfg Config) (*sentencepiece.Tokenizer, error) {
	if sentencepiece.IsJSON(data) {
		tok, err := sentencepiece.LoadJSON(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; a spiece.model beside it is taken first", name, err)
		}
		return tok, fits(tok.VocabSize(), name, cfg)
	}
	pieces, err := sentencepiece.Load(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := fits(pieces.VocabSize(), name, cfg); err != nil {
		return nil, err
	}
	of := cfg.kin()
	newTokenizer := sentencepiece.NewTokenizer
	if of.fast {
		newTokenizer = sentencepiece.NewFastTokenizer
	}
	return newTokenizer(pieces, min(of.extraIDs, cfg.VocabSize-pieces.VocabSize()))
}

// fits refuses a tokenizer with more ids than the encoder has.
func fits(ids int, name string, cfg Config) error {
	if ids > cfg.VocabSize {
		return fmt.Errorf("%s has %d pieces, config.json a vocab_size of %d: they belong to different models", name, ids, cfg.VocabSize)
	}
	return nil
}

type stage struct {
	weights.Sharded[Config, Encoder]
	tok      *sentencepiece.Tokenizer // nil: the stage is only planned
	digest   string
	clean    bool
	scores   string // none, 1.2 or 1.3
	template wrapping
}

// Digest names the encoder and its tokenizer by content, and the way in which the model reads scores.
func (s *stage) Digest() string { return s.digest }

// Check refuses lengths that no T5 here can do.
func (s *stage) Check(row *schemas.PromptRow) error {
	if row.MaxSequenceLength < 1 || row.MaxSequenceLength > MaxTokens {
		return fmt.Errorf("max_sequence_length is %d: give 1 to %d tokens", row.MaxSequenceLength, MaxTokens)
	}
	if _, err := segments(row); err != nil {
		return err
	}
	return checkScores(s.scores, row)
}

// segments are the texts of a prompt: one, or those of a video of several clips.
func segments(row *schemas.PromptRow) ([]condition.Segment, error) {
	if row.Loop <= 1 {
		return []condition.Segment{{Text: row.Prompt}}, nil
	}
	return condition.Segments(row.Prompt)
}

// Need is that of Encode for prompts of full length.
func (s *stage) Need(row *schemas.PromptRow, n int) (int64, error) {
	if row.NegativePrompt != "" {
		n *= 2
	}
	return s.Config.EncodeBytes(n, row.MaxSequenceLength)
}

// Run encodes all prompts of the batch in one pass, the negative ones among them.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	b, err := s.tokenize(batch)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	enc, err := s.On(dev)
	if err != nil {
		return err
	}
	defer dev.Scope()()
	hidden, err := enc.Encode(dev, b.ids)
	if err != nil {
		return err
	}
	return b.assign(dev, hidden)
}

// prompts are those of a batch.
type prompts struct {
	batch []*stages.Element
	clips [][]condition.Segment // of each element: what holds from which clip on
	ids   [][]int32             // each text once: the negative prompt is often the same for all
	texts []int                 // of each element its segments and its negative prompt, as numbers of ids
	known map[string]int        // numbers of ids by their content
}

// readingCut is the reading that says how many tokens of a prompt lie beyond max_sequence_length; rows without such tokens
// have none.
const readingCut = "truncated_tokens"

// add takes one more text.
func (b *prompts) add(ids []int32) {
	name := fmt.Sprint(ids)
	at, ok := b.known[name]
	if !ok {
		at = len(b.ids)
		b.known[name], b.ids = at, append(b.ids, ids)
	}
	b.texts = append(b.texts, at)
}

func (s *stage) tokenize(batch []*stages.Element) (b prompts, err error) {
	b = prompts{batch: batch, clips: make([][]condition.Segment, len(batch)), known: map[string]int{}}
	for i, e := range batch {
		if b.clips[i], err = segments(&e.Row); err != nil {
			return b, err // Check has refused such a row
		}
		cut := 0
		for _, c := range b.clips[i] {
			ids, n := s.segment(c, &e.Row)
			b.add(ids)
			cut += n
		}
		if cut > 0 {
			e.Read(map[string]string{readingCut: strconv.Itoa(cut)})
		}
		if e.Row.NegativePrompt != "" {
			ids, _ := s.tokens(s.negative(&e.Row), &e.Row)
			b.add(ids)
		}
	}
	return b, nil
}

// assign gives the elements their texts, in the order of the ids.
func (b prompts) assign(dev kernels.Backend, hidden []kernels.Tensor) error {
	texts := make([]*stages.Array, len(hidden))
	for i, h := range hidden {
		texts[i] = stages.NewArray(h.Dim(0), h.Dim(1))
		if err := dev.Download(texts[i].Data, h); err != nil {
			return err
		}
	}
	next := 0
	take := func() *stages.Array { next++; return texts[b.texts[next-1]] }
	for i, e := range b.batch {
		e.Text = &stages.Text{Embedding: take()}
		for _, c := range b.clips[i][1:] {
			e.Text.Later = append(e.Text.Later, stages.LaterText{Clip: c.Loop, Embedding: take()})
		}
		if e.Row.NegativePrompt != "" {
			e.Text.Negative = take()
		}
	}
	return nil
}

// negative is the text of the negative prompt of a row.
func (s *stage) negative(row *schemas.PromptRow) string {
	if s.Config.kin().emptyText && row.NegativePrompt == schemas.None {
		return ""
	}
	return row.NegativePrompt
}

// segment returns the ids of a part of a row's prompt, and how many were cut off.
func (s *stage) segment(c condition.Segment, row *schemas.PromptRow) ([]int32, int) {
	return s.tokens(s.template.wrap(withScores(s.scores, c.Text, row)), row)
}

// cutTokens is Capabilities.CutTokens.
func (s *stage) cutTokens(row *schemas.PromptRow) (cut int) {
	all, err := segments(row)
	if err != nil || s.tok == nil {
		return 0 // Check has refused such a row
	}
	for _, c := range all {
		_, n := s.segment(c, row)
		cut += n
	}
	return cut
}

// tokens returns the ids of a prompt, and how many were cut off.
func (s *stage) tokens(prompt string, row *schemas.PromptRow) ([]int32, int) {
	if s.clean {
		prompt = s.template.cleaner(s.Config.kin())(prompt)
	}
	return s.tok.EncodeCut(prompt, row.MaxSequenceLength)
}
