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
	"latentbeam/stages/nn"
	"latentbeam/stages/t5/sentencepiece"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/gguf"
)

// options are the options of the stage in the YAML.
type options struct {
	// Clean says whether prompts are cleaned before tokenizing as the reference does: T5's reference is Open-Sora, UMT5's is
	// Wan. Default true. mT5's reference is Open-Sora-Plan: its templates for version 1.2 clean as Open-Sora does, the template
	// for 1.3 does not clean.
	Clean bool `yaml:"clean" json:"clean"`
	// PromptTemplate is the text around prompts, but not around negative prompts, as in Open-Sora-Plan's scripts: osp12-single,
	// osp12-multi, osp13 or none. Default: osp12-single for models of version 1.2, osp13 for 1.3, else none.
	PromptTemplate string `yaml:"prompt_template" json:"prompt_template,omitempty"`
	// Scores says how aes, flow and camera_motion are appended to a prompt: none, 1.2 or 1.3. The default is the style of the
	// model's version. Models without scores ignore the columns.
	Scores string `yaml:"scores" json:"scores,omitempty"`
	// DType is the type of weights and activations: fp32 (the default, and the reference's type), bf16 or fp16.
	DType string `yaml:"dtype" json:"dtype,omitempty"`
	// Precision is int8 for 8-bit products in all layers; "": products have the type DType.
	Precision string `yaml:"precision" json:"precision,omitempty"`
	// TPSize and PPSize are the numbers of workers that the weights are split over: TPSize splits heads and columns, PPSize
	// splits layers. They change no value and no key; auto splits weights that do not fit one device.
	TPSize schemas.AutoInt `yaml:"tp_size" json:"-"`
	PPSize schemas.AutoInt `yaml:"pp_size" json:"-"`
}

// Spec returns the stage `encode_text`: it cleans, tokenizes and encodes the prompt, and the negative prompt if the row has
// one.
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
		Approximations: []stages.Approximation{weights.Int8Loss},
		New:            open,
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
	opts.PromptTemplate = "" // it is part of the digest
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
		opts.DType = "" // writing the default must not change the job
	}
	pieces, where, err := readTokenizer(m, findEmbedded(encoder))
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

// tokenizerFiles are the possible paths of tokenizers, in order of preference: beside the encoder, or in tokenizer/ as in some
// repositories. If transformers has no spiece.model, it saves only a tokenizer.json.
var tokenizerFiles = []string{"text_encoder/spiece.model", "tokenizer/spiece.model", "text_encoder/tokenizer.json", "tokenizer/tokenizer.json"}

// packedTokenizer is the tensor of ComfyUI's files that holds a spiece.model.
const packedTokenizer = "spiece_model"

// embeddedTokenizer is a tokenizer inside the file of the weights.
type embeddedTokenizer struct {
	data    []byte // a spiece.model; nil: there is none
	where   string
	problem string // why it cannot be used
}

// findEmbedded returns the tokenizer inside the weights: a tensor in ComfyUI's files, or the vocabulary of a GGUF.
func findEmbedded(encoder *weights.Component[Config, Encoder]) embeddedTokenizer {
	if data := encoder.Raw(packedTokenizer); data != nil {
		return embeddedTokenizer{data: data, where: "the tensor " + packedTokenizer}
	}
	if data := encoder.Metadata(gguf.Tokenizer); data != "" {
		return embeddedTokenizer{data: []byte(data), where: "the tokenizer in the GGUF"}
	}
	return embeddedTokenizer{problem: encoder.Metadata(gguf.NoTokenizer)}
}

// readTokenizer reads the first tokenizer of a model, or the one inside its weights. name says where it was found.
func readTokenizer(m *stages.Model, own embeddedTokenizer) (data []byte, name string, err error) {
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
		err = fmt.Errorf("%w, and the tokenizer in the GGUF cannot be used: %s", err, own.problem)
	}
	return nil, "", fmt.Errorf("%w: T5 needs its tokenizer, a spiece.model or a tokenizer.json, there or in tokenizer/", err)
}

// openTokenizer parses a tokenizer and checks that it belongs to the encoder.
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
	of := cfg.variant()
	newTokenizer := sentencepiece.NewTokenizer
	if of.fast {
		newTokenizer = sentencepiece.NewFastTokenizer
	}
	return newTokenizer(pieces, min(of.extraIDs, cfg.VocabSize-pieces.VocabSize()))
}

// fits returns an error for a tokenizer with more ids than the encoder has.
func fits(ids int, name string, cfg Config) error {
	if ids > cfg.VocabSize {
		return fmt.Errorf("%s has %d pieces, config.json a vocab_size of %d: they belong to different models", name, ids, cfg.VocabSize)
	}
	return nil
}

type stage struct {
	weights.Sharded[Config, Encoder]
	tok      *sentencepiece.Tokenizer // nil: the model is only planned
	digest   string
	clean    bool
	scores   string // none, 1.2 or 1.3
	template wrapping

	rehearsals nn.Rehearsals
}

// Digest identifies the encoder and its tokenizer by content, and the style of scores.
func (s *stage) Digest() string { return s.digest }

// Check returns an error for lengths that the encoder does not support.
func (s *stage) Check(row *schemas.PromptRow) error {
	if row.MaxSequenceLength < 1 || row.MaxSequenceLength > MaxTokens {
		return fmt.Errorf("max_sequence_length is %d: give 1 to %d tokens", row.MaxSequenceLength, MaxTokens)
	}
	if _, err := segments(row); err != nil {
		return err
	}
	return checkScores(s.scores, row)
}

// segments returns the texts of a prompt: one, or several for a video of several clips.
func segments(row *schemas.PromptRow) ([]condition.Segment, error) {
	if row.Loop <= 1 {
		return []condition.Segment{{Text: row.Prompt}}, nil
	}
	return condition.Segments(row.Prompt)
}

// Need returns the memory of Encode for prompts of full length.
func (s *stage) Need(row *schemas.PromptRow, n int) (int64, error) {
	if row.NegativePrompt != "" {
		n *= 2
	}
	return s.Config.EncodeBytes(n, row.MaxSequenceLength)
}

// Run encodes all prompts of the batch in one pass, with the negative prompts.
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

// prompts are the prompts of a batch.
type prompts struct {
	batch []*stages.Element
	clips [][]condition.Segment // for each element: its texts, and the clip from which each is used
	ids   [][]int32             // each distinct text once: often all rows have the same negative prompt
	texts []int                 // for each element: indices in ids of its segments, then of its negative prompt
	known map[string]int        // maps the content of ids to their index
}

// readingCut is a reading: the number of tokens of a prompt beyond max_sequence_length. Rows without such tokens do not have
// it.
const readingCut = "truncated_tokens"

// add adds one more text.
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
			return b, err // Check refuses such a row
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

// assign stores the texts in the elements, in the order of the ids.
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

// negative returns the text of a row's negative prompt.
func (s *stage) negative(row *schemas.PromptRow) string {
	if s.Config.variant().emptyText && row.NegativePrompt == schemas.None {
		return ""
	}
	return row.NegativePrompt
}

// segment returns the ids of a part of a row's prompt, and the number of tokens that were cut off.
func (s *stage) segment(c condition.Segment, row *schemas.PromptRow) ([]int32, int) {
	return s.tokens(s.template.wrap(withScores(s.scores, c.Text, row)), row)
}

// cutTokens implements Capabilities.CutTokens.
func (s *stage) cutTokens(row *schemas.PromptRow) (cut int) {
	all, err := segments(row)
	if err != nil || s.tok == nil {
		return 0 // Check refuses such a row
	}
	for _, c := range all {
		_, n := s.segment(c, row)
		cut += n
	}
	return cut
}

// tokens returns the ids of a prompt, and the number of tokens that were cut off.
func (s *stage) tokens(prompt string, row *schemas.PromptRow) ([]int32, int) {
	if s.clean {
		prompt = s.template.cleaner(s.Config.variant())(prompt)
	}
	return s.tok.EncodeCut(prompt, row.MaxSequenceLength)
}
