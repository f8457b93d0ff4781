package clip

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/stages/nn/nntest"
)

// tokenGoldens are what openai/CLIP makes of odd texts, see testdata/make_tokens.py.
type tokenGoldens struct {
	Fragments []string
	LeftOut   []rune // ranges of characters that become an A: first, last, first, last
	Lines     int
	SHA256    []string // first 16 digits of the digest of all tokens so far, after every hundredth line
	Hard      []struct {
		Text string
		IDs  []int32
	}
}

func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	return x ^ x>>16
}

// line makes line i as make_tokens.py does.
func (g tokenGoldens) line(i uint32) string {
	var out strings.Builder
	for j := range 1 + mix(i^0xa5a5a5a5)%24 {
		h := mix((i*31 + j) * 0x9e3779b1)
		switch c := rune((h >> 3) % 0x1f000); {
		case h%8 != 0:
			out.WriteString(g.Fragments[(h>>3)%uint32(len(g.Fragments))])
		case g.leftOut(c):
			out.WriteByte('A')
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

func (g tokenGoldens) leftOut(c rune) bool {
	i, first := slices.BinarySearch(g.LeftOut, c)
	return first || i%2 == 1
}

// TestTokensEqualOpenAI compares the tokens of 10,000 unusual lines, and of each fragment that they consist of.
func TestTokensEqualOpenAI(t *testing.T) {
	var g tokenGoldens
	nntest.Decode(t, nntest.Golden(t, "../../testdata/golden/clip-tokens.json")["tokens"], &g)
	for _, h := range g.Hard {
		if got := Tokenize(h.Text); !slices.Equal(got, h.IDs) {
			t.Errorf("%q: %v, want %v", h.Text, got, h.IDs)
		}
	}
	sum := sha256.New()
	for i := range uint32(g.Lines) {
		for _, id := range Tokenize(g.line(i)) {
			sum.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
		}
		if n := i / 100; i%100 == 99 && hex.EncodeToString(sum.Sum(nil))[:16] != g.SHA256[n] {
			t.Fatalf("the tokens of lines %d to %d differ", i-99, i)
		}
	}
	if len(g.SHA256) != 100 || len(g.Hard) < 100 {
		t.Errorf("%d digests, %d hard texts", len(g.SHA256), len(g.Hard))
	}
}

// TestTokensOfLongText: a text of megabytes takes no more time than its first words.
func TestTokensOfLongText(t *testing.T) {
	started := time.Now()
	for _, text := range []string{strings.Repeat("a", 1<<20), strings.Repeat("cats and dogs ", 1<<17)} {
		if ids := Tokenize(text); len(ids) != contextLength || ids[contextLength-1] != endOfText {
			t.Errorf("%d tokens", len(ids))
		}
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
