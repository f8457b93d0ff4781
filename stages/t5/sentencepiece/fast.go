package sentencepiece

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// NewFastTokenizer is NewTokenizer for models whose references use the fast tokenizer of transformers 4.x (UMT5, mT5).
// transformers converts the same file to a tokenizer.json with a Precompiled normaliser, Metaspace and Unigram. The ids differ
// from the library's for some combining marks, for the order of equally likely pieces ("..."), and for text that spells a
// control piece; <s> is a token of its own if the model has that piece.
//
// transformers 5 loses the byte fallback of these models, so its T5Tokenizer is not the reference.
func NewFastTokenizer(m *Model, extraIDs int) (*Tokenizer, error) {
	t, err := NewTokenizer(m, extraIDs)
	if err != nil {
		return nil, err
	}
	if id := m.controlID("<s>"); id >= 0 {
		t.add("<s>", id)
	}
	f := newFast(m)
	t.encode = func(text string, _ bool) []int32 { return f.encode(text) }
	return t.buildTrie(), nil
}

// metaspace replaces a space, and marks the start of a word.
const metaspace = "\u2581"

// fast encodes with a model as the fast tokenizer does.
type fast struct {
	*Model
	all     *trie   // all pieces, also those that cannot match text
	unknown float64 // score of a character that no piece covers
}

func newFast(m *Model) *fast {
	entries := make([]trieEntry, len(m.pieces))
	lowest := math.Inf(1)
	for i, p := range m.pieces {
		entries[i] = trieEntry{p.text, int32(i)}
		lowest = min(lowest, float64(p.score))
	}
	slices.SortFunc(entries, func(a, b trieEntry) int { return strings.Compare(a.key, b.key) })
	return &fast{Model: m, all: newTrie(entries), unknown: lowest - unknownPenalty}
}

// encode returns the ids of text, word by word. Bytes that are not UTF-8 count as U+FFFD.
func (f *fast) encode(text string) (ids []int32) {
	text = strings.TrimRightFunc(f.replaced(strings.ToValidUTF8(text, "\uFFFD")), unicode.IsSpace)
	if text == "" {
		return nil
	}
	text = spacesToMetaspace(text)
	if !strings.HasPrefix(text, metaspace) {
		text = metaspace + text
	}
	for text != "" {
		end := len(text)
		if n := strings.Index(text[len(metaspace):], metaspace); n >= 0 {
			end = len(metaspace) + n
		}
		ids = f.appendWord(ids, text[:end])
		text = text[end:]
	}
	return ids
}

// maxGrapheme is the length in bytes from which a grapheme is replaced character by character.
const maxGrapheme = 6

// replaced applies the character rules. A short grapheme is replaced as a whole by the shortest rule that it starts with;
// otherwise the same is done for each character.
func (f *fast) replaced(text string) string {
	if f.charsmap == nil {
		return text
	}
	var out strings.Builder
	out.Grow(len(text) + len(text)/8)
	for each := graphemes.FromString(text); each.Next(); {
		grapheme := each.Value()
		if len(grapheme) < maxGrapheme {
			if r, n := f.charsmap.find(grapheme, true); n > 0 {
				out.WriteString(r)
				continue
			}
		}
		for _, c := range grapheme {
			char := string(c)
			if r, n := f.charsmap.find(char, true); n > 0 {
				char = r
			}
			out.WriteString(char)
		}
	}
	return out.String()
}

// spacesToMetaspace replaces every run of spaces by one metaspace.
func spacesToMetaspace(text string) string {
	var out strings.Builder
	out.Grow(len(text) + len(text)/4)
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != ' ':
			out.WriteByte(text[i])
		case i == 0 || text[i-1] != ' ':
			out.WriteString(metaspace)
		}
	}
	return out.String()
}

// fastStep is bestWay with scores in float64. The precision decides between equally likely paths.
type fastStep struct {
	score  float64
	id     int32
	length int32 // of the last piece, in bytes; 0 if no path is known yet
}

// appendWord appends the most likely pieces of a word.
func (f *fast) appendWord(ids []int32, word string) []int32 {
	best := make([]fastStep, len(word)+1)
	for start := 0; start < len(word); {
		_, char := utf8.DecodeRuneInString(word[start:])
		offer := func(score float64, id int32, length int) {
			to := &best[start+length]
			if score += best[start].score; to.length == 0 || score > to.score {
				*to = fastStep{score, id, int32(length)}
			}
		}
		covered := false
		for node, end := int32(0), start; end < len(word); {
			if node = f.all.child(node, word[end]); node == 0 {
				break
			}
			end++
			if id := f.all.value[node]; id >= 0 {
				offer(float64(f.pieces[id].score), id, end-start)
				covered = covered || end-start == char
			}
		}
		if !covered {
			offer(f.unknown, f.unk, char)
		}
		start += char
	}
	return f.appendPath(ids, word, best)
}

// appendPath appends the pieces of the best path. A run of unknown characters becomes the ids of its bytes, or one id if the
// model has no byte fallback.
func (f *fast) appendPath(ids []int32, word string, best []fastStep) []int32 {
	from := len(ids)
	for end := len(word); end > 0; {
		start := end - int(best[end].length)
		if best[end].id != f.unk {
			ids = append(ids, best[end].id)
			end = start
			continue
		}
		for start > 0 && best[start].id == f.unk {
			start -= int(best[start].length)
		}
		if run := word[start:end]; f.bytes == nil || run == f.Piece(f.unk) {
			ids = append(ids, f.unk)
		} else {
			for i := len(run) - 1; i >= 0; i-- {
				ids = append(ids, f.bytes[run[i]])
			}
		}
		end = start
	}
	slices.Reverse(ids[from:])
	return ids
}
