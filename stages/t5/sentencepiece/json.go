package sentencepiece

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// A tokenizer.json of huggingface's tokenizers describes the steps: added tokens are cut out, the rest is normalised and split
// into words, and each word becomes pieces of a Unigram vocabulary. Unknown parts are refused by name, because they would give
// other ids.

// step is a normaliser or a pre-tokeniser in the file.
type step struct {
	Type          string
	Normalizers   []step
	Pretokenizers []step
	// Fields of the types Precompiled, Strip, Replace, Prepend and Metaspace.
	Charsmap  []byte `json:"precompiled_charsmap"`
	Left      bool   `json:"strip_left"`
	Right     bool   `json:"strip_right"`
	Pattern   struct{ String, Regex *string }
	Content   string
	Prepend   string
	Mark      string  `json:"replacement"`
	Scheme    *string `json:"prepend_scheme"`
	AddPrefix *bool   `json:"add_prefix_space"` // in older files, instead of prepend_scheme
	Split     *bool
}

// tokenizerFile is a tokenizer.json.
type tokenizerFile struct {
	Added []struct {
		ID         int32
		Content    string
		SingleWord bool `json:"single_word"`
		Left       bool `json:"lstrip"`
		Right      bool `json:"rstrip"`
		Normalized bool
	} `json:"added_tokens"`
	Normalizer   *step
	PreTokenizer *step `json:"pre_tokenizer"`
	Processor    *struct {
		Type   string
		Single []struct {
			Sequence     *struct{}
			SpecialToken *struct{ ID string }
		}
		Special map[string]struct{ IDs []int32 } `json:"special_tokens"`
	} `json:"post_processor"`
	Model struct {
		Type  string
		Unk   *int32 `json:"unk_id"`
		Bytes bool   `json:"byte_fallback"`
		Vocab []jsonPiece
	}
}

// jsonPiece is a piece with its score.
type jsonPiece struct {
	Text  string
	Score float64
}

// UnmarshalJSON reads ["piece", score].
func (p *jsonPiece) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.Text, &p.Score})
}

// IsJSON reports whether data is a tokenizer.json, not a spiece.model.
func IsJSON(data []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) }

// LoadJSON parses a tokenizer.json with a Unigram model, as transformers saves T5, mT5 and UMT5. The ids are those of
// huggingface's tokenizers library. An error names the part that is not supported.
func LoadJSON(data []byte) (*Tokenizer, error) {
	if len(data) > 4*maxModelBytes {
		return nil, fmt.Errorf("%d bytes, limit %d", len(data), 4*maxModelBytes)
	}
	var file tokenizerFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	m, err := file.model()
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{model: m, added: map[string]int32{}}
	if m.eos, err = file.endID(); err != nil {
		return nil, err
	}
	p := &pipeline{fast: newFast(m)}
	if err := p.addNormalizer(file.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := p.addSplitter(file.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	t.encode = p.encode
	for _, a := range file.Added {
		if a.SingleWord || a.Left || a.Right || a.Normalized || a.Content == "" || a.ID < 0 || a.ID > maxPieces {
			return nil, fmt.Errorf("added token %q (id %d) has single_word, lstrip, rstrip or normalized, or no text: only plain ones are known here",
				a.Content, a.ID)
		}
		t.add(a.Content, a.ID)
	}
	return t.buildTrie(), nil
}

// model returns the vocabulary.
func (f *tokenizerFile) model() (*Model, error) {
	v := f.Model
	switch {
	case v.Type != "Unigram":
		return nil, fmt.Errorf("its model is %q: T5's is Unigram", v.Type)
	case len(v.Vocab) > maxPieces || v.Unk == nil || *v.Unk < 0 || int(*v.Unk) >= len(v.Vocab):
		return nil, fmt.Errorf("its model has %d pieces (at most %d) and no unk_id among them", len(v.Vocab), maxPieces)
	}
	m := &Model{unk: *v.Unk, eos: -1, pad: -1}
	seen := map[string]bool{}
	for i, p := range v.Vocab {
		one := vocabPiece{text: p.Text, score: float32(p.Score), kind: normal}
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("piece %d: %w", i, err)
		}
		if seen[p.Text] {
			return nil, fmt.Errorf("piece %d is %q again", i, p.Text)
		}
		seen[p.Text] = true
		if strings.HasPrefix(p.Text, "<0x") && len(p.Text) == len("<0x00>") {
			one.kind = byteValue
		}
		m.pieces = append(m.pieces, one)
	}
	if v.Bytes {
		var err error
		if m.bytes, err = m.byteIDs(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// endID returns the id that ends every text.
func (f *tokenizerFile) endID() (int32, error) {
	err := errors.New("post_processor is not one that puts a token such as </s> behind every text, which T5 needs")
	p := f.Processor
	if p == nil || p.Type != "TemplateProcessing" || len(p.Single) != 2 || p.Single[0].Sequence == nil || p.Single[1].SpecialToken == nil {
		return 0, err
	}
	ids := p.Special[p.Single[1].SpecialToken.ID].IDs
	if len(ids) != 1 || ids[0] < 0 || ids[0] > maxPieces {
		return 0, err
	}
	return ids[0], nil
}

// word is a part of a text.
type word struct {
	text  string
	first bool // it starts the text
}

// pipeline is the processing of text between added tokens.
type pipeline struct {
	*fast
	normalizers []func(string) (normalized string, start bool) // start: the first character is still the first one of the text
	splitters   []func([]word) []word
}

// encode returns the ids of text. start says that it starts the whole text.
func (p *pipeline) encode(text string, start bool) (ids []int32) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for _, f := range p.normalizers {
		var kept bool
		text, kept = f(text)
		start = start && kept
	}
	words := []word{{text, start}}
	for _, f := range p.splitters {
		words = f(words)
	}
	for _, w := range words {
		ids = p.appendWord(ids, w.text)
	}
	return ids
}

// addNormalizer adds the function of a normaliser.
func (p *pipeline) addNormalizer(s *step) error {
	if s == nil {
		return nil
	}
	add := func(f func(string) (string, bool)) { p.normalizers = append(p.normalizers, f) }
	switch s.Type {
	case "Sequence":
		for i := range s.Normalizers {
			if err := p.addNormalizer(&s.Normalizers[i]); err != nil {
				return err
			}
		}
	case "Precompiled":
		rules, err := parseCharsmap(s.Charsmap)
		if err != nil {
			return fmt.Errorf("precompiled_charsmap: %w", err)
		}
		if p.charsmap != nil && rules != nil {
			return errors.New("it has two precompiled charsmaps")
		}
		if rules != nil {
			p.charsmap = rules
			add(func(text string) (string, bool) { return p.replaced(text), true })
		}
	case "Strip":
		add(func(text string) (string, bool) {
			length := len(text)
			if s.Left {
				text = strings.TrimLeftFunc(text, unicode.IsSpace)
			}
			kept := len(text) == length
			if s.Right {
				text = strings.TrimRightFunc(text, unicode.IsSpace)
			}
			return text, kept
		})
	case "Replace":
		return s.replace(add)
	case "Prepend":
		add(func(text string) (string, bool) {
			if text == "" {
				return "", true
			}
			return s.Prepend + text, true
		})
	case "NFC", "NFD", "NFKC", "NFKD":
		form := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[s.Type]
		add(func(text string) (string, bool) { return form.String(text), true })
	default:
		return fmt.Errorf("%q is not known here", s.Type)
	}
	return nil
}

// plainPattern matches patterns that mean the same in all regexp engines: characters, and runs of them.
var plainPattern = regexp.MustCompile(`^([^\\.+*?()|\[\]{}^$]|\\s|\{\d+,?\d*\}|\+)+$`)

// replace adds the function of a Replace.
func (s *step) replace(add func(func(string) (string, bool))) error {
	switch {
	case s.Pattern.String != nil && *s.Pattern.String != "":
		old := *s.Pattern.String
		add(func(text string) (string, bool) {
			return strings.ReplaceAll(text, old, s.Content), !strings.HasPrefix(text, old)
		})
		return nil
	case s.Pattern.Regex != nil && plainPattern.MatchString(*s.Pattern.Regex) && !strings.Contains(*s.Pattern.Regex, `\s`):
		pattern, err := regexp.Compile(*s.Pattern.Regex)
		if err != nil {
			return err
		}
		add(func(text string) (string, bool) {
			at := pattern.FindStringIndex(text)
			return pattern.ReplaceAllLiteralString(text, s.Content), at == nil || at[0] > 0
		})
		return nil
	}
	return errors.New("normalizer Replace has a pattern that is not known here")
}

// addSplitter adds the function of a pre-tokeniser.
func (p *pipeline) addSplitter(s *step) error {
	if s == nil {
		return nil
	}
	switch s.Type {
	case "Sequence":
		for i := range s.Pretokenizers {
			if err := p.addSplitter(&s.Pretokenizers[i]); err != nil {
				return err
			}
		}
		return nil
	case "WhitespaceSplit":
		p.splitters = append(p.splitters, splitSpaces)
		return nil
	case "Metaspace":
		prepend := "always"
		switch {
		case s.Scheme != nil:
			prepend = *s.Scheme
		case s.AddPrefix != nil && !*s.AddPrefix:
			prepend = "never"
		}
		if !slices.Contains([]string{"always", "first", "never"}, prepend) || s.Mark == "" {
			return fmt.Errorf("pre-tokenizer Metaspace has prepend_scheme %q and replacement %q", prepend, s.Mark)
		}
		p.splitters = append(p.splitters, func(words []word) []word { return s.metaspace(words, prepend) })
		return nil
	}
	return fmt.Errorf("%q is not known here", s.Type)
}

// splitSpaces splits words at white space and removes it.
func splitSpaces(words []word) (out []word) {
	for _, w := range words {
		for i, text := range strings.Fields(w.text) {
			out = append(out, word{text, w.first && i == 0 && strings.HasPrefix(w.text, text)})
		}
	}
	return out
}

// metaspace makes spaces visible and splits before them.
func (s *step) metaspace(words []word, prepend string) (out []word) {
	for _, w := range words {
		text := strings.ReplaceAll(w.text, " ", s.Mark)
		if text != "" && !strings.HasPrefix(text, s.Mark) && (prepend == "always" || prepend == "first" && w.first) {
			text = s.Mark + text
		}
		if s.Split != nil && !*s.Split {
			out = append(out, word{text, w.first})
			continue
		}
		for at := 0; at < len(text); {
			end := len(text)
			from := at
			if strings.HasPrefix(text[at:], s.Mark) {
				from += len(s.Mark)
			}
			if n := strings.Index(text[from:], s.Mark); n >= 0 {
				end = from + n
			}
			out = append(out, word{text[at:end], w.first && at == 0})
			at = end
		}
	}
	return out
}
