package sentencepiece

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// jsonOf is a tokenizer.json with the vocabulary of a model and 300 extra ids; CHARSMAP in normalizer is replaced by the model's.
func jsonOf(t testing.TB, name string, normalizer, splitter json.RawMessage) []byte {
	t.Helper()
	s, err := parseSpec(readGzip(t, "testdata/"+name+".model.gz"))
	if err != nil {
		t.Fatal(err)
	}
	type added struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
	}
	var vocab [][]any
	var tokens []added
	for i, p := range s.pieces {
		if vocab = append(vocab, []any{p.text, p.score}); i < 4 {
			tokens = append(tokens, added{i, p.text})
		}
	}
	for i := range 300 {
		token := fmt.Sprintf("<extra_id_%d>", 299-i)
		tokens, vocab = append(tokens, added{len(vocab), token}), append(vocab, []any{token, 0})
	}
	charsmap := []byte(base64.StdEncoding.EncodeToString(s.charsmap))
	data, err := json.Marshal(map[string]any{"added_tokens": tokens, "normalizer": json.RawMessage(bytes.ReplaceAll(normalizer, []byte("CHARSMAP"), charsmap)),
		"pre_tokenizer": splitter, "model": map[string]any{"type": "Unigram", "unk_id": 3, "byte_fallback": true, "vocab": vocab},
		"post_processor": json.RawMessage(`{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
			"special_tokens": {"</s>": {"ids": [1]}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestJSONEqualsTokenizers: normalisers and pre-tokenisers of published and hand-made files give the ids of the tokenizers
// library.
func TestJSONEqualsTokenizers(t *testing.T) {
	var golden struct {
		Texts    []string
		Variants map[string]struct {
			Normalizer json.RawMessage
			Splitter   json.RawMessage `json:"pre_tokenizer"`
			IDs        [][]int32
		}
	}
	data, err := os.ReadFile("testdata/json.json")
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range golden.Variants {
		tok, err := LoadJSON(jsonOf(t, "umt5", v.Normalizer, v.Splitter))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, text := range golden.Texts {
			if got := tok.Encode(text, 0); !slices.Equal(got, v.IDs[i]) {
				t.Errorf("%s: %q is %v, tokenizers has %v", name, text, got, v.IDs[i])
			}
		}
		if tok.VocabSize() != tok.model.VocabSize() {
			t.Errorf("%s: %d ids", name, tok.VocabSize())
		}
	}
}

// converted is what transformers' converter makes of a model's rules.
const converted = `{"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "CHARSMAP"},
	{"type": "Strip", "strip_left": false, "strip_right": true}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}`

const metaspaceAlways = `{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}`

// TestJSONEqualsTheModel: a converted file gives the ids of its spiece.model, for prompts of many languages.
func TestJSONEqualsTheModel(t *testing.T) {
	tok, err := LoadJSON(jsonOf(t, "umt5", json.RawMessage(converted), json.RawMessage(metaspaceAlways)))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range readFast(t) {
		if got := tok.Encode(row.Text, 512); !slices.Equal(got, row.UMT5) {
			t.Fatalf("%q is %v, transformers has %v", row.Text, got, row.UMT5)
		}
	}
}

// TestJSONRefuses: settings that would give other ids are refused by name.
func TestJSONRefuses(t *testing.T) {
	good := string(jsonOf(t, "umt5-identity", json.RawMessage("null"), json.RawMessage(metaspaceAlways)))
	for _, c := range [][3]string{
		{`"type":"Unigram"`, `"type":"BPE"`, `its model is "BPE": T5's is Unigram`},
		{`"unk_id":3`, `"unk_id":null`, "no unk_id"},
		{`"normalizer":null`, `"normalizer":{"type":"Lowercase"}`, `normalizer: "Lowercase" is not known here`},
		{`"normalizer":null`, `"normalizer":{"type":"Replace","pattern":{"Regex":"a|b"},"content":""}`, "Replace has a pattern that is not known"},
		{`"type":"Metaspace"`, `"type":"ByteLevel"`, `pre_tokenizer: "ByteLevel" is not known here`},
		{`"prepend_scheme":"always"`, `"prepend_scheme":"twice"`, `prepend_scheme "twice"`},
		{`"TemplateProcessing"`, `"ByteLevel"`, "puts a token such as </s> behind every text"},
		{`{"id":0,`, `{"lstrip":true,"id":0,`, "has single_word, lstrip, rstrip or normalized"},
		{`"model":`, `"mode":`, `its model is ""`},
		{`{`, `[`, "invalid character"},
	} {
		text := strings.Replace(good, c[0], c[1], 1)
		if _, err := LoadJSON([]byte(text)); err == nil || text == good || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %v, want %s", c[1], err, c[2])
		}
	}
}

// jsonSeed is a small tokenizer.json.
const jsonSeed = `{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁a",-1]]},"pre_tokenizer":` + metaspaceAlways + `,"post_processor":
	{"type":"TemplateProcessing","single":[{"Sequence":{}},{"SpecialToken":{"id":"e"}}],"special_tokens":{"e":{"ids":[1]}}}}`
