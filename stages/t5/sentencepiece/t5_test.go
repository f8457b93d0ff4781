package sentencepiece

import (
	"slices"
	"strings"
	"testing"
)

func t5Tokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := NewTokenizer(loadTest(t, "t5"), 100)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// The ids are those of T5Tokenizer of transformers 5.23.0 (tokenizers 0.23.3) and of the conversion that the
// 4.x releases made, on the same model with 100 extra ids; both agree on these texts.
func TestTokenizerAddedTokens(t *testing.T) {
	tok := t5Tokenizer(t)
	for _, c := range []struct {
		text string
		want []int32
	}{
		{"", []int32{1}},
		{"a <extra_id_0> b", []int32{10, 8099, 164, 1}},
		{"a<extra_id_0>b", []int32{10, 8099, 164, 1}},
		{"<extra_id_0>", []int32{8099, 1}},
		{"  <extra_id_1>  ", []int32{8098, 1}},
		{"<extra_id_99><extra_id_100>", []int32{8000, 3, 2, 3843, 46, 2, 2711, 2, 1096, 109, 2, 1}},
		{"<extra_id_00>", []int32{3, 2, 3843, 46, 2, 2711, 2, 1796, 2, 1}},
		{"x</s>y", []int32{858, 1, 904, 1}},
		{"a <pad> b", []int32{10, 0, 164, 1}},
		{"<unk>", []int32{2, 1}},
		{"<EXTRA_ID_0>", []int32{3, 2, 7999, 2, 33, 2, 7995, 2, 109, 2, 1}},
		{"<<extra_id_0>>", []int32{3, 2, 8099, 3, 2, 1}},
		{"<extra_id_5 <extra_id_5>", []int32{3, 2, 3843, 46, 2, 2711, 2, 104, 8094, 1}},
		{"\n<extra_id_0>\tb", []int32{8099, 164, 1}},
		{"a. <extra_id_0> .b", []int32{10, 26, 8099, 3, 26, 42, 1}},
		{"<s>", []int32{3, 2, 4, 2, 1}},
	} {
		if got := tok.Encode(c.text, 0); !slices.Equal(got, c.want) {
			t.Errorf("Encode(%q) = %v, want %v", c.text, got, c.want)
		}
		for _, limit := range []int{1, 2, 4} {
			want := c.want
			if len(want) > limit {
				want = append(slices.Clone(want[:limit-1]), 1)
			}
			if got := tok.Encode(c.text, limit); !slices.Equal(got, want) {
				t.Errorf("Encode(%q, %d) = %v, want %v", c.text, limit, got, want)
			}
		}
	}
	if got := tok.VocabSize(); got != 8100 {
		t.Errorf("VocabSize() = %d, want 8100", got)
	}
}

// Text without added tokens is the library's encoding and the end id.
func TestTokenizerIsModelPlusEnd(t *testing.T) {
	tok := t5Tokenizer(t)
	for _, g := range readGolden(t) {
		text := string(g.Text)
		if before, _, _ := tok.nextAdded(text); before != text {
			continue
		}
		got := tok.Encode(text, 120)
		want := append(slices.Clone(g.T5[:min(len(g.T5), 119)]), 1)
		if !slices.Equal(got, want) {
			t.Errorf("Encode(%.100q, 120) = %v, want %v", text, got, want)
		}
	}
}

func TestNewTokenizerRefuses(t *testing.T) {
	_, err := NewTokenizer(loadTest(t, "suffix"), 100)
	if err == nil || !strings.Contains(err.Error(), "pad") {
		t.Errorf("a model without a pad piece: error is %v", err)
	}
	if _, err := NewTokenizer(loadTest(t, "t5"), -1); err == nil {
		t.Error("-1 extra ids: no error")
	}
}
