package clip

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // the merges
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"

	"latentbeam/stages/t5/clean"
	"latentbeam/stages/t5/ftfy"
)

// Tokens of every CLIP, and the largest number of tokens of a text.
const (
	startOfText   = 49406
	endOfText     = 49407
	contextLength = 77
)

// compressed has the merges of the vocabulary that all CLIPs share, in the order of learning; see merges.LICENSE.
//
//go:embed merges.txt.gz
var compressed []byte

// vocabulary has the tokens of pieces. A piece is a text in the alphabet below; the end of a word is marked.
type vocabulary struct {
	alphabet [256]string // letter for each byte
	ids      map[string]int32
	ranks    map[[2]string]int
}

// wordEnd marks the last piece of a word.
const wordEnd = "</w>"

// learnt loads the vocabulary once.
var learnt = sync.OnceValue(func() *vocabulary {
	v := &vocabulary{ids: map[string]int32{}, ranks: map[[2]string]int{}}
	var order []string // letters in the order of their tokens: printable bytes first
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	other := rune(256)
	for b := range 256 {
		if printable(b) {
			v.alphabet[b] = string(rune(b))
			order = append(order, v.alphabet[b])
		}
	}
	for b := range 256 {
		if !printable(b) {
			v.alphabet[b] = string(other)
			order = append(order, v.alphabet[b])
			other++
		}
	}
	add := func(piece string) { v.ids[piece] = int32(len(v.ids)) }
	for _, letter := range order {
		add(letter)
	}
	for _, letter := range order {
		add(letter + wordEnd)
	}
	file, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		panic(err) // the data is part of the program
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		first, second, _ := strings.Cut(lines.Text(), " ")
		v.ranks[[2]string{first, second}] = len(v.ranks)
		v.ids[first+second] = int32(2*len(order) + len(v.ranks) - 1)
	}
	if len(v.ranks) != startOfText-2*len(order) {
		panic(fmt.Sprintf("%d merges, %v", len(v.ranks), lines.Err()))
	}
	return v
})

// words matches the parts of a text: the two special tokens, English endings, letters, single digits, and other characters
// except spaces. U+0345 is in no word: it is not a letter, but its capital is one, and Python's regex excludes both.
var words = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i:<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d)|\p{L}+|\p{N}|[^\s\v\p{Z}\x{85}\x{345}\p{L}\p{N}]+`)
})

// Tokenize returns the tokens of a text as clip.tokenize of openai/CLIP does, without padding. The result starts and ends with
// the start and end tokens, and is cut at 77 tokens.
func Tokenize(text string) []int32 {
	v := learnt()
	text = ftfy.UnescapeHTML(ftfy.UnescapeHTML(ftfy.Fix(text)))
	text = clean.LowerCase(strings.Join(strings.FieldsFunc(text, ftfy.IsSpace), " "))
	ids := []int32{startOfText}
	for rest := text; rest != "" && len(ids) < contextLength; {
		at := words().FindStringIndex(rest)
		if at == nil {
			break
		}
		ids = v.appendWord(ids, rest[at[0]:at[1]])
		rest = rest[at[1]:]
	}
	return append(ids[:min(len(ids), contextLength-1)], endOfText)
}

// appendWord appends the tokens of a word: its pieces are merged in pairs, pairs that were learnt earlier first.
func (v *vocabulary) appendWord(ids []int32, word string) []int32 {
	switch word {
	case "<|startoftext|>":
		return append(ids, startOfText)
	case "<|endoftext|>":
		return append(ids, endOfText)
	}
	pieces := make([]string, len(word))
	for i := range len(word) {
		pieces[i] = v.alphabet[word[i]]
	}
	pieces[len(pieces)-1] += wordEnd
	for len(pieces) > 1 {
		best, pair := math.MaxInt, [2]string{}
		for i := range len(pieces) - 1 {
			two := [2]string{pieces[i], pieces[i+1]}
			if rank, known := v.ranks[two]; known && rank < best {
				best, pair = rank, two
			}
		}
		if best == math.MaxInt {
			break
		}
		joined := pieces[:0]
		for i := 0; i < len(pieces); i++ {
			if i+1 < len(pieces) && pieces[i] == pair[0] && pieces[i+1] == pair[1] {
				joined = append(joined, pair[0]+pair[1])
				i++
			} else {
				joined = append(joined, pieces[i])
			}
		}
		pieces = joined
	}
	for _, p := range pieces {
		ids = append(ids, v.ids[p])
	}
	return ids
}
