package gguf

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"latentbeam/stages/t5/sentencepiece"
	"latentbeam/stages/weights/gguf/gguftest"
)

// vocabulary is that of a small Unigram model, with the tokens that llama.cpp appends.
func vocabulary() map[string]any {
	tokens := []string{"<pad>", "</s>", "<unk>", "\u2581a", "b", "\u2581", "ab", "<extra_id_1>", "<extra_id_0>", "[PAD9]"}
	return map[string]any{
		"general.architecture": "t5encoder", "tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": tokens,
		"tokenizer.ggml.scores":               []float32{0, 0, 0, -1, -2, -3, -1.5, 0, 0, -10000},
		"tokenizer.ggml.token_type":           []int32{3, 3, 2, 1, 1, 1, 1, 4, 4, 5},
		"tokenizer.ggml.precompiled_charsmap": []byte{}, "tokenizer.ggml.add_space_prefix": true,
		"tokenizer.ggml.remove_extra_whitespaces": true, "tokenizer.ggml.unknown_token_id": uint32(2),
		"tokenizer.ggml.eos_token_id": uint32(1), "tokenizer.ggml.padding_token_id": uint32(0),
	}
}

// TestTokenizer: the tokenizer in a file gives the ids of the model from which it was made, and the extra ids follow its
// pieces.
func TestTokenizer(t *testing.T) {
	f, err := New(gguftest.Write(vocabulary(), nil))
	if err != nil {
		t.Fatal(err)
	}
	m, err := sentencepiece.Load([]byte(f.Metadata()[Tokenizer]))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := sentencepiece.NewTokenizer(m, 2)
	if err != nil || m.VocabSize() != 7 {
		t.Fatalf("%d pieces, %v", m.VocabSize(), err)
	}
	if ids := tok.Encode("ab a  b <extra_id_0>", 0); !slices.Equal(ids, []int32{3, 4, 3, 5, 4, 8, 1}) {
		t.Errorf("ids %v", ids)
	}
}

// TestTokenizerOfUMT5: a trained model with byte fallback and character rules, in the form that llama.cpp writes, gives the
// ids of the original model.
func TestTokenizerOfUMT5(t *testing.T) {
	packed, err := os.Open("../../t5/sentencepiece/testdata/umt5.model.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	model, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	values := vocabulary()
	var tokens []string
	var scores []float32
	var kinds []int32
	eachField(t, model, func(number protowire.Number, _ uint64, data []byte) {
		switch number {
		case 1:
			tokens, scores, kinds = append(tokens, ""), append(scores, 0), append(kinds, 1)
			last := len(tokens) - 1
			eachField(t, data, func(number protowire.Number, bits uint64, data []byte) {
				switch number {
				case 1:
					tokens[last] = string(data)
				case 2:
					scores[last] = math.Float32frombits(uint32(bits))
				case 3:
					kinds[last] = int32(bits)
				}
			})
		case 3:
			eachField(t, data, func(number protowire.Number, bits uint64, data []byte) {
				switch number {
				case 2:
					values["tokenizer.ggml.precompiled_charsmap"] = data
				case 3:
					values["tokenizer.ggml.add_space_prefix"] = bits != 0
				case 4:
					values["tokenizer.ggml.remove_extra_whitespaces"] = bits != 0
				}
			})
		}
	})
	for i := range 300 {
		tokens, scores, kinds = append(tokens, fmt.Sprintf("<extra_id_%d>", 299-i)), append(scores, 0), append(kinds, 4)
	}
	for i := range 16 {
		tokens, scores, kinds = append(tokens, fmt.Sprintf("[PAD%d]", len(tokens)+i)), append(scores, -10000), append(kinds, 5)
	}
	values["tokenizer.ggml.tokens"], values["tokenizer.ggml.scores"], values["tokenizer.ggml.token_type"] = tokens, scores, kinds
	for name, text := range map[string]string{"unknown": "<unk>", "eos": "</s>", "padding": "<pad>"} {
		values["tokenizer.ggml."+name+"_token_id"] = uint32(slices.Index(tokens, text))
	}
	f, err := New(gguftest.Write(values, nil))
	if err != nil {
		t.Fatal(err)
	}
	tokenizer := func(data []byte) *sentencepiece.Tokenizer {
		m, err := sentencepiece.Load(data)
		if err != nil {
			t.Fatal(err, f.Metadata()[NoTokenizer])
		}
		tok, err := sentencepiece.NewFastTokenizer(m, 300)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	theirs, ours := tokenizer(model), tokenizer([]byte(f.Metadata()[Tokenizer]))
	for _, text := range []string{"A cat walks on the grass, realistic style.", "\uff21\uff22 \u00e9 e\u0301 \ufb01", "\u6f22\u5b57 \U0001f600", "<extra_id_3>  x", "",
		"  two  spaces ", "\t\n", "<s> </s> <pad> [PAD2800]"} {
		if a, b := theirs.Encode(text, 0), ours.Encode(text, 0); !slices.Equal(a, b) {
			t.Errorf("%q: ids %v, the model gives %v", text, b, a)
		}
	}
}

// eachField calls visit for each field of a message.
func eachField(t *testing.T, message []byte, visit func(number protowire.Number, bits uint64, data []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatal("no message")
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		var bits uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			bits, _ = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			v, _ := protowire.ConsumeFixed32(message)
			bits = uint64(v)
		case protowire.BytesType:
			data, _ = protowire.ConsumeBytes(message)
		}
		visit(number, bits, data)
		message = message[size:]
	}
}

// TestOtherTokenizers: the error for another or an incomplete tokenizer says what is missing.
func TestOtherTokenizers(t *testing.T) {
	for want, change := range map[string]func(v map[string]any){
		`of the kind "llama"`:           func(v map[string]any) { v["tokenizer.ggml.model"] = "llama" },
		"one score and one type":        func(v map[string]any) { v["tokenizer.ggml.scores"] = []float32{1} },
		"precompiled_charsmap":          func(v map[string]any) { delete(v, "tokenizer.ggml.precompiled_charsmap") },
		"no eos_token_id among its 10":  func(v map[string]any) { v["tokenizer.ggml.eos_token_id"] = uint32(10) },
		"no padding_token_id among its": func(v map[string]any) { delete(v, "tokenizer.ggml.padding_token_id") },
	} {
		v := maps.Clone(vocabulary())
		change(v)
		f, err := New(gguftest.Write(v, nil))
		if err != nil || !strings.Contains(f.Metadata()[NoTokenizer], want) || f.Metadata()[Tokenizer] != "" {
			t.Errorf("%s: %v, %v", want, f.Metadata()[NoTokenizer], err)
		}
	}
}
