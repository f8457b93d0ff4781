package sentencepiece

import (
	"fmt"
	"maps"
	"slices"
)

// Tokenizer uses a Model as T5 does: some words in angle brackets are single tokens, and an end token ends every text.
type Tokenizer struct {
	model  *Model
	encode func(text string, start bool) []int32 // for text between added tokens; start: the text starts with it
	added  map[string]int32
	tokens *trie // finds the keys of added
}

// NewTokenizer wraps a model whose vocabulary has the pieces </s> and <pad>. The extra ids of T5's span corruption,
// <extra_id_0> to <extra_id_(extraIDs-1)>, follow the model's pieces in descending order (100 in every published T5).
func NewTokenizer(m *Model, extraIDs int) (*Tokenizer, error) {
	if m.eos < 0 || m.pad < 0 {
		return nil, fmt.Errorf("make T5 tokenizer: no end or no pad piece (ids %d, %d)", m.eos, m.pad)
	}
	if extraIDs < 0 || extraIDs > maxPieces {
		return nil, fmt.Errorf("make T5 tokenizer: %d extra ids, want 0 to %d", extraIDs, maxPieces)
	}
	t := &Tokenizer{model: m, encode: func(text string, _ bool) []int32 { return m.Encode(text) }, added: map[string]int32{}}
	for _, id := range []int32{m.eos, m.pad, m.unk} {
		t.add(m.Piece(id), id)
	}
	for k := range extraIDs {
		t.add(fmt.Sprintf("<extra_id_%d>", k), int32(m.VocabSize()+extraIDs-1-k))
	}
	return t.buildTrie(), nil
}

func (t *Tokenizer) add(token string, id int32) { t.added[token] = id }

// buildTrie builds the trie of added tokens.
func (t *Tokenizer) buildTrie() *Tokenizer {
	var all []trieEntry
	for _, token := range slices.Sorted(maps.Keys(t.added)) {
		all = append(all, trieEntry{token, t.added[token]})
	}
	t.tokens = newTrie(all)
	return t
}

// VocabSize returns the number of ids in use, with extra ids. An embedding table may be larger.
func (t *Tokenizer) VocabSize() int {
	size := t.model.VocabSize()
	for _, id := range t.added {
		size = max(size, int(id)+1)
	}
	return size
}

// Encode returns the ids of text and the end id, at most maxLength in total. A longer text is cut before the end id. maxLength
// 0 means no limit. There is no padding; len(ids) is the attention mask.
func (t *Tokenizer) Encode(text string, maxLength int) []int32 {
	ids, _ := t.EncodeCut(text, maxLength)
	return ids
}

// EncodeCut is Encode. It also returns how many ids of the text were cut off.
func (t *Tokenizer) EncodeCut(text string, maxLength int) (ids []int32, cut int) {
	for start := true; text != ""; start = false {
		before, id, after := t.nextAdded(text)
		ids = append(ids, t.encode(before, start)...)
		if id >= 0 {
			ids = append(ids, id)
		}
		text = after
	}
	if maxLength > 0 && len(ids) >= maxLength {
		cut = len(ids) - (maxLength - 1)
		ids = ids[:maxLength-1]
	}
	return append(ids, t.model.eos), cut
}

// nextAdded splits text at its first added token, the longest that starts there. id is -1 if there is none.
func (t *Tokenizer) nextAdded(text string) (before string, id int32, after string) {
	for at := range len(text) {
		if n := t.tokens.longest(text[at:]); n > 0 {
			return text[:at], t.added[text[at:at+n]], text[at+n:]
		}
	}
	return text, -1, ""
}
