package sentencepiece

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/system/testaid"
)

// fastRow is a text, cleaned as Wan's are, and its ids by PreTrainedTokenizerFast of transformers 5.23.0 (tokenizers
// 0.23.3), at most 512. The tokenizer.json has what T5Converter makes of a spiece.model, with byte fallback and 300
// extra ids. Its models are of 2500 pieces, trained by sentencepiece 0.2.3 with byte_fallback, pad 0, end 1, begin 2,
// unknown 3, and the rules nmt_nfkc (umt5) and identity.
type fastRow struct {
	Text           string
	UMT5, Identity []int32
}

// fastEnv names another file of such rows, unpacked.
const fastEnv = "LATENTBEAM_FAST_IDS"

func readFast(t *testing.T) (rows []fastRow) {
	t.Helper()
	var from io.Reader
	if path := os.Getenv(fastEnv); path != "" {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		from = f
	} else {
		from = bytes.NewReader(readGzip(t, "testdata/fast.jsonl.gz"))
	}
	for d := json.NewDecoder(from); ; {
		var row fastRow
		if err := d.Decode(&row); err == io.EOF {
			return rows
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
}

func fastTokenizer(t *testing.T, name string) *Tokenizer {
	t.Helper()
	tok, err := NewFastTokenizer(loadTest(t, name), 300)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestFastEqualsTransformers(t *testing.T) {
	rows := readFast(t)
	if len(rows) < 1400 {
		t.Fatalf("only %d texts", len(rows))
	}
	for name, want := range map[string]func(fastRow) []int32{
		"umt5":          func(r fastRow) []int32 { return r.UMT5 },
		"umt5-identity": func(r fastRow) []int32 { return r.Identity },
	} {
		tok := fastTokenizer(t, name)
		wrong, library := 0, 0
		for _, r := range rows {
			got := tok.Encode(r.Text, 512)
			if !slices.Equal(got, want(r)) {
				if wrong++; wrong <= 5 {
					t.Errorf("%s: Encode(%.200q)\n got %v\nwant %v", name, r.Text, got, want(r))
				}
			}
			if before, _, _ := tok.nextAdded(r.Text); before == r.Text && len(got) < 512 &&
				!slices.Equal(got[:len(got)-1], tok.model.Encode(r.Text)) {
				library++
			}
		}
		t.Logf("%s: %d of %d texts differ; the library's ids are other ones for %d", name, wrong, len(rows), library)
		if library == 0 {
			t.Errorf("%s: the library gives the same ids everywhere: nothing is shown", name)
		}
	}
}

// The ids of UMT5's file: pad 0, end 1, begin 2, unknown 3, bytes, the extra ids from the last down.
func TestFastIDs(t *testing.T) {
	tok := fastTokenizer(t, "umt5")
	m := tok.model
	if m.PadID() != 0 || m.EOSID() != 1 || m.UnknownID() != 3 || tok.VocabSize() != m.VocabSize()+300 {
		t.Errorf("pad %d, end %d, unknown %d, %d ids", m.PadID(), m.EOSID(), m.UnknownID(), tok.VocabSize())
	}
	last := int32(m.VocabSize() + 299)
	bytesOf := func(s string) (ids []int32) {
		for _, b := range []byte(s) {
			ids = append(ids, m.bytes[b])
		}
		return ids
	}
	space := tok.Encode("\U0010ffff", 0)[0]
	if m.Piece(space) != "\u2581" {
		t.Fatalf("a word begins with %q", m.Piece(space))
	}
	for text, want := range map[string][]int32{
		"":                             {1},
		"<s></s><pad><unk>":            {2, 1, 0, 3, 1},
		"<extra_id_0><extra_id_299>":   {last, last - 299, 1},
		"\U0010ffff":                   append(append([]int32{space}, bytesOf("\U0010ffff")...), 1),
		"\xff":                         {1}, // the rules make a space of U+FFFD
		"<s>" + "\U0010ffff\U0010fffe": append(append([]int32{2, space}, bytesOf("\U0010ffff\U0010fffe")...), 1),
	} {
		if got := tok.Encode(text, 512); !slices.Equal(got, want) {
			t.Errorf("Encode(%+q) = %v, want %v", text, got, want)
		}
	}
	if got := tok.Encode(strings.Repeat("漢", 600), 512); len(got) != 512 || got[511] != 1 {
		t.Errorf("a long text gives %d ids, the last %d", len(got), got[len(got)-1])
	}
}

func TestFastIsLinear(t *testing.T) {
	tok := fastTokenizer(t, "umt5")
	for name, unit := range map[string]string{"words": "a red bird drifts ", "spaces": " ", "one letter": "a",
		"unknown": "\U0010ffff", "marks": "e\u0301", "joined": "\U0001F469\u200d", "invalid": "\xff"} {
		testaid.Linear(t, name, "", unit, func(text string) { tok.Encode(text, 512) })
	}
}
